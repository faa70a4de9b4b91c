#include "ir/graph/infer_op.h"

#include <algorithm>

namespace moec::inference {

Type with_channels(const Type& token, int64_t channels) {
  return token_type(token.dtype, token.layout, channels, tokens_of(token));
}

std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  // Unlike in NumPy, ranks must be equal, except that scalars fit every rank.
  if (a.empty()) return b;
  if (b.empty()) return a;
  if (a.size() != b.size()) return std::nullopt;
  Dims joined(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return std::nullopt;
    joined[i] = std::max(a[i], b[i]);
  }
  return joined;
}

}  // namespace moec::inference
