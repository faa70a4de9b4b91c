#include <utility>
#include <vector>

#include "ir/graph/port_names.h"
#include "models/shards/shard_scope.h"

namespace moec {

static ValueId scaled(Builder& b, ValueId x, double factor, const char* name) {
  return b.mul(x, b.scalar_like(x, factor), name);
}

// cap · tanh(x / (divisor · cap))
static ValueId capped(Builder& b, ValueId x, double divisor, double cap) {
  ValueId share = b.unary(UnaryFn::tanh, scaled(b, x, 1 / (divisor * cap), "cap_share"));
  return scaled(b, share, cap, kLogitsPort);
}

void build_head(ShardScope& scope) {
  ValueId hidden = scope.b.input(kHiddenPort, scope.token_type_of(scope.model().hidden));
  ValueId x = scope.norm(hidden, "final_norm");
  const int64_t all = scope.model().logits();
  const SliceStep own{0, scope.decl.vocab_begin, scope.decl.vocab_size};
  // A tied head uses the stored rows, without the scale that embedding_rows() applies.
  const char* role = scope.model().head.tied ? "embed" : "lm_head";
  WeightView rows = then(scope.stored(role, {all, scope.model().hidden}), own);
  std::vector<ValueId> operands = {x, scope.weight(std::move(rows), "lm_head.weight")};
  if (scope.model().head.bias)
    operands.push_back(
        scope.weight(then(scope.stored("lm_head_bias", {all}), own), "lm_head.bias"));
  const auto [divisor, cap] = std::pair(scope.model().head.divisor, scope.model().head.softcap);
  // `head` can be called only once, because it moves the operands.
  auto head = [&](const char* name) { return scope.b.emit(Linear{}, std::move(operands), name); };
  if (divisor == 1 && cap == 0) return scope.b.output(kLogitsPort, head(kLogitsPort));
  ValueId raw = head("raw_logits");
  scope.b.output(kLogitsPort, cap == 0 ? scaled(scope.b, raw, 1 / divisor, kLogitsPort)
                                       : capped(scope.b, raw, divisor, cap));
}

}  // namespace moec
