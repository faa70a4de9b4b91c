#include <vector>

#include "ir/graph/port_names.h"
#include "models/build/shard_scope.h"

namespace moec {

void build_head(ShardScope& scope) {
  ValueId hidden = scope.b.input(kHiddenPort, scope.token_type_of(scope.model().hidden));
  ValueId x = scope.norm(hidden, "final_norm");
  const int64_t all = scope.model().logits();
  const SliceStep own{0, scope.decl.vocab_begin, scope.decl.vocab_size};
  const char* role = scope.model().head.tied ? "embed" : "lm_head";
  WeightView rows = then(scope.stored(role, {all, scope.model().hidden}), own);
  std::vector<ValueId> operands = {x, scope.weight(std::move(rows), "lm_head.weight")};
  if (scope.model().head.bias)
    operands.push_back(
        scope.weight(then(scope.stored("lm_head_bias", {all}), own), "lm_head.bias"));
  const double divisor = scope.model().head.divisor;
  auto head = [&](const char* name) { return scope.b.emit(Linear{}, std::move(operands), name); };
  if (divisor == 1) return scope.b.output(kLogitsPort, head(kLogitsPort));
  ValueId raw = head("raw_logits");
  scope.b.output(kLogitsPort, scope.b.mul(raw, scope.b.scalar_like(raw, 1 / divisor), kLogitsPort));
}

}  // namespace moec
