// The interface of a pass: one snake_case free function that reads a const shard and returns a new
// one. pipeline.h has the table of all passes and the default order.
#pragma once

#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/graph/shard.h"
#include "ir/graph/weight_form.h"
#include "ir/target/target.h"

namespace moec {

// The forms of tensor math to which routers are lowered (lower_router in passes.h). All except
// full_softmax are exact. With op, experts become ops of the target's engine (fuse_experts).
enum class RoutingForm : uint8_t { rank, iterate, topk, host, full_softmax, op };
constexpr auto enum_names(RoutingForm) {
  return name_table<RoutingForm>({"rank", "iterate", "topk", "host", "full_softmax", "op"});
}
inline bool is_exact(RoutingForm form) { return form != RoutingForm::full_softmax; }

enum class ExpertForm : uint8_t { unrolled, bank };
constexpr auto enum_names(ExpertForm) { return name_table<ExpertForm>({"unrolled", "bank"}); }

struct PassOptions {
  RoutingForm routing = RoutingForm::rank;
  ExpertForm experts = ExpertForm::unrolled;
  AttentionForm attention = AttentionForm::batched;
  // Leaves attention to an op outside of the shard (open_attention).
  bool open_attention = false;
  // Maximum channels of an expert bank's projection; the target's limit applies as well. Wider
  // banks are split.
  int64_t bank_channel_limit = 16384;
  // For each router of the shard, in order: the slots that tokens can choose, ascending. An empty
  // entry allows all slots of the router; an empty list, all slots of all routers.
  std::vector<std::vector<int64_t>> kept_experts;
  // Capacity factor: an expert accepts at most capacity × tokens × k / experts tokens per step
  // (limit_capacity). 0: no limit.
  double capacity = 0;
  WeightForms weights = {};  // storage forms of the shard's weights (encode_weights)
  Target target;             // projection and sum form, rules for `place`
};

struct PassContext {
  PassOptions options;
  Diagnostics notes;  // warnings and notes of passes; passes return errors instead
};

using PassFunction = Result<Shard> (*)(const Shard&, PassContext&);

struct Pass {
  std::string_view name;
  PassFunction run;
  Form from;  // the form that the input shard must have
  Form to;    // the form of the result
  std::string_view summary;
};

}  // namespace moec
