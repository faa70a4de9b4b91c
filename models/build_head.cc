#include "models/shard_scope.h"

namespace moec {

void build_head(ShardScope& scope) {
  ValueId hidden = scope.b.input("hidden", scope.token_type_of(scope.model().hidden));
  ValueId x = scope.rms_norm(hidden, "final_norm", "final_norm");
  WeightView rows = scope.stored(scope.model().tied_head ? "embed" : "lm_head");
  rows = then(std::move(rows), SliceStep{0, scope.decl.vocab_begin, scope.decl.vocab_size});
  ValueId w = scope.weight(std::move(rows), "lm_head.weight");
  const double divisor = scope.model().logits_divisor;
  if (divisor == 1) return scope.b.output("logits", scope.b.linear(x, w, "logits"));
  ValueId raw = scope.b.linear(x, w, "raw_logits");
  scope.b.output("logits", scope.b.mul(raw, scope.b.scalar_like(raw, 1 / divisor), "logits"));
}

}  // namespace moec
