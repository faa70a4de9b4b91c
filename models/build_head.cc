#include "models/shard_scope.h"

namespace moec {

void build_head(ShardScope& scope) {
  ValueId hidden = scope.b.input("hidden", scope.token_type_of(scope.model().hidden));
  ValueId x = scope.rms_norm(hidden, "final_norm", "final_norm");
  WeightView rows = scope.stored(scope.model().tied_head ? "embed" : "lm_head");
  rows = then(std::move(rows), SliceStep{0, scope.decl.vocab_begin, scope.decl.vocab_size});
  ValueId w = scope.weight(std::move(rows), "lm_head.weight");
  scope.b.output("logits", scope.b.linear(x, w, "logits"));
}

}  // namespace moec
