// The interface of a pass: one snake_case free function in a file of the same name, which reads a
// const shard and returns a new one. pipeline.h has the table of all passes and the default order.
#pragma once

#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/graph/shard.h"
#include "ir/graph/weight_form.h"
#include "ir/target/target.h"

namespace moec {

// How routers become tensor math (lower_router in passes.h). All but full_softmax are exact.
enum class RoutingForm : uint8_t { rank, iterate, topk, host, full_softmax };
constexpr auto enum_names(RoutingForm) {
  return name_table<RoutingForm>({"rank", "iterate", "topk", "host", "full_softmax"});
}
inline bool is_exact(RoutingForm form) { return form != RoutingForm::full_softmax; }

enum class ExpertForm : uint8_t { unrolled, bank };
constexpr auto enum_names(ExpertForm) { return name_table<ExpertForm>({"unrolled", "bank"}); }

struct PassOptions {
  RoutingForm routing = RoutingForm::rank;
  ExpertForm experts = ExpertForm::unrolled;
  AttentionForm attention = AttentionForm::batched;
  // Widest projection of an expert bank, in channels; the target's limit applies as well. Wider
  // banks are split.
  int64_t bank_channel_limit = 16384;
  // By router of the shard, in order: the slots that tokens can choose, ascending; none: all of
  // them. Empty: all slots of all routers.
  std::vector<std::vector<int64_t>> kept_experts;
  // Of tokens × k / experts, that an expert takes in a step of several tokens (limit_capacity); 0:
  // all.
  double capacity = 0;
  WeightForms weights = {};  // of the shard's weights (encode_weights in passes.h)
  Target target;             // projection and sum form, rules for `place`
};

struct PassContext {
  PassOptions options;
  Diagnostics notes;  // warnings and notes of passes; errors are returned
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
