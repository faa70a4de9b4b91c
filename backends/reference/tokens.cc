#include "backends/reference/tokens.h"

#include "ir/base/at.h"

namespace moec {
namespace {

// Layout [1, C, T, 1] stores the transpose of [T, C].
std::vector<float> transposed(const std::vector<float>& data, int64_t rows, int64_t columns) {
  std::vector<float> result(data.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) at(result, c * rows + r) = at(data, r * columns + c);
  return result;
}

}  // namespace

TokenRows zero_rows(int64_t tokens, int64_t channels) {
  return {tokens, channels, std::vector<float>(static_cast<size_t>(tokens * channels))};
}

// bc1s, [1, C, 1, T], has the same memory order as [1, C, T, 1], so both need the same
// transposition.
TokenRows rows_of(const Tensor& tensor) {
  const int64_t tokens = tokens_of(tensor.type), channels = channels_of(tensor.type);
  if (tensor.type.layout == Layout::rows) return {tokens, channels, tensor.data};
  return {tokens, channels, transposed(tensor.data, channels, tokens)};
}

Tensor tensor_of(const TokenRows& rows, const Type& type) {
  if (type.layout == Layout::rows) return {type, rows.data};
  return {type, transposed(rows.data, rows.tokens, rows.channels)};
}

}  // namespace moec
