// Properties that hold for every text, checked by the fuzz target and by tests; aborts on a
// violation. A parsed text must print as text that parses to the same shard. The verifier must
// accept any shard as input, and a valid shard must have an interface. Folding a view with then()
// must preserve its type.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "ir/model/plan.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace moec::ir_text {

inline void require(bool condition) {
  if (!condition) std::abort();
}

inline void check_folding(const WeightView& view) {
  WeightView folded = view;
  folded.steps.clear();
  for (const ViewStep& step : view.steps) folded = then(std::move(folded), step);
  require(view_type(folded) == view_type(view));
  require(to_string(parse_view(to_string(folded)).value()) == to_string(folded));
}

inline void check_ir_text(std::string_view text) {
  auto shard = parse_shard(text);
  if (!shard) return;
  const std::string printed = print(*shard);
  auto again = parse_shard(printed);
  require(again && *again == *shard && print(*again) == printed);
  const Diagnostics findings = verify(*shard);
  require(parse_shard(print_with_findings(*shard, findings)).has_value());
  if (!findings.empty()) return;
  require(interface_of(*shard).inputs.size() == shard->inputs.size());
  for (const Op& op : shard->ops)
    if (const auto* weight = std::get_if<Weight>(&op.data)) check_folding(weight->view);
}

}  // namespace moec::ir_text
