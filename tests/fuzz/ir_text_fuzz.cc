// The text form. What parses prints as text that parses to the same shard; the verifier takes it,
// and what verifies has an interface. Folding a view by then() does not change its type.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ir/plan.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_folding(const moec::WeightView& view) {
  moec::WeightView folded = view;
  folded.steps.clear();
  for (const moec::ViewStep& step : view.steps) folded = moec::then(std::move(folded), step);
  require(moec::view_type(folded) == moec::view_type(view));
  require(moec::to_string(moec::parse_view(moec::to_string(folded)).value()) ==
          moec::to_string(folded));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto shard = moec::parse_shard({reinterpret_cast<const char*>(data), size});
  if (!shard) return 0;
  const std::string text = moec::print(*shard);
  auto again = moec::parse_shard(text);
  require(again && *again == *shard && moec::print(*again) == text);
  const moec::Diagnostics findings = moec::verify(*shard);
  require(moec::parse_shard(moec::print_with_findings(*shard, findings)).has_value());
  if (!findings.empty()) return 0;
  require(moec::interface_of(*shard).inputs.size() == shard->inputs.size());
  for (const moec::Op& op : shard->ops)
    if (const auto* weight = std::get_if<moec::Weight>(&op.data)) check_folding(weight->view);
  return 0;
}
