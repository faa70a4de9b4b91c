// What a pass is: one snake_case free function in one file of the same name, that reads a const
// shard and returns a new one. The table of all passes and the default order are in pipeline.h.
#pragma once

#include <string_view>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/graph/shard.h"
#include "ir/target/target.h"

namespace moec {

// How routers become tensor math (design §4). All but full_softmax are exact.
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
  int64_t bank_channel_limit =
      16384;  // widest conv of an expert bank, as far as the target takes it; wider banks are split
  Target target;  // projection and sum form, rules for `place`
};

struct PassContext {
  PassOptions options;
  Diagnostics notes;  // warnings and notes that passes leave; errors are returned
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
