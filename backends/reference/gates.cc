#include "backends/reference/gates.h"

#include <algorithm>
#include <numeric>

#include "backends/reference/axis.h"
#include "backends/reference/tensor_pool.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// The selected indices among the `size` ones of an axis, in the gate's numbers.
std::span<const int64_t> selected(const OpenGate& open, const CountedAxis& axis, int64_t size) {
  const auto begin = std::lower_bound(open.indices.begin(), open.indices.end(), axis.first);
  return {begin, std::lower_bound(begin, open.indices.end(), axis.first + size)};
}

// The end of the run of consecutive indices that begins at position `begin`.
size_t run_end(std::span<const int64_t> indices, size_t begin) {
  size_t end = begin + 1;
  while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
  return end;
}

// An element's index is (outer * size + index) * step + offset, so consecutive indices are
// contiguous elements. Calls visit(outer, from, elements) for each run of them.
template <class Visit>
void for_each_selected(const Lines& lines, const CountedAxis& axis, const OpenGate& open,
                       Visit visit) {
  const std::span<const int64_t> indices = selected(open, axis, lines.size);
  for (int64_t outer = 0; outer < lines.outer; ++outer)
    for (size_t i = 0; i < indices.size();) {
      const size_t end = run_end(indices, i);
      visit(outer, (outer * lines.size + indices[i] - axis.first) * lines.step,
            static_cast<int64_t>(end - i) * lines.step);
      i = end;
    }
}

// NaN is not equal to 0, so a NaN weight selects its token.
std::vector<int64_t> chosen_tokens(const Tensor& weights) {
  std::vector<int64_t> tokens;
  for (size_t token = 0; token < weights.data.size(); ++token)
    if (weights.data[token] != 0.0f) tokens.push_back(static_cast<int64_t>(token));
  return tokens;
}

// Returns the keys that at least one token sees. The negated comparison counts NaN as seen. If a
// token sees no key, its probabilities are those of all keys, so all are returned.
std::vector<int64_t> seen_keys(const Tensor& mask) {
  const auto count = static_cast<size_t>(mask.type.dims.back());
  const auto sees = [](float value) { return !(value <= kHidden); };
  std::vector<uint8_t> is_seen(count);
  for (size_t begin = 0; begin < mask.data.size(); begin += count) {
    const std::span row(&mask.data[begin], count);
    if (std::ranges::none_of(row, sees)) is_seen.assign(count, 1);
    for (size_t key = 0; key < count; ++key) is_seen[key] |= static_cast<uint8_t>(sees(row[key]));
  }
  std::vector<int64_t> keys(std::accumulate(is_seen.begin(), is_seen.end(), size_t{0}));
  for (size_t key = 0, to = 0; to < keys.size(); ++key) {
    keys[to] = static_cast<int64_t>(key);
    to += is_seen[key];
  }
  return keys;
}

}  // namespace

void copy_elements(const Tensor& tensor, int64_t from, int64_t count, float* to) {
  if (tensor.halves.empty()) {
    std::copy_n(tensor.data.data() + from, count, to);
    return;
  }
  const auto halves = std::as_bytes(std::span(tensor.halves).subspan(static_cast<size_t>(from)));
  decode(DType::f16, halves.data(), static_cast<size_t>(count), to);
}

Tensor widened(const Tensor& tensor) {
  Tensor wide{tensor.type, std::vector<float>(static_cast<size_t>(tensor.type.elements()))};
  copy_elements(tensor, 0, std::ssize(wide.data), wide.data.data());
  return wide;
}

Gates find_gates(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought) {
  Gates gates;
  // Token gates come first: an op belongs to at most one part, and find_key_gates() skips a part
  // that overlaps an existing part.
  find_token_gates(shard, is_brought, gates);
  find_key_gates(shard, is_brought, gates);
  return gates;
}

OpenGate open_gate(const Gate& gate, const Tensor& weights) {
  OpenGate open;
  if (gate.along == GateAxis::tokens) {
    open.indices = chosen_tokens(weights);
    open.all = open.indices.size() == weights.data.size();
  } else {
    open.indices = seen_keys(weights);
    open.all = std::ssize(open.indices) == weights.type.dims.back();
  }
  return open;
}

int64_t count_selected(const OpenGate& open, const CountedAxis& axis, int64_t size) {
  return std::ssize(selected(open, axis, size));
}

Type with_size(Type type, int64_t axis, int64_t size) {
  type.dims.at(axis) = size;
  return type;
}

Tensor gather_selected(const Tensor& from, const CountedAxis& axis, const OpenGate& open) {
  const int64_t count = count_selected(open, axis, from.type.dims.at(axis.axis));
  return concat_selected({{{&from, axis}}}, with_size(from.type, axis.axis, count), open);
}

Tensor concat_selected(std::span<const SelectedOperand> operands, const Type& type,
                       const OpenGate& open) {
  Tensor result = make_tensor(type);
  int64_t begin = 0;  // of the operand, among the indices of the result
  for (const SelectedOperand& operand : operands) {
    const Lines lines(operand.whole->type.dims, operand.axis.axis);
    const int64_t count = count_selected(open, operand.axis, lines.size);
    const int64_t outer_step = type.dims.at(operand.axis.axis) * lines.step;
    int64_t done = 0;  // elements of this operand
    for_each_selected(
        lines, operand.axis, open, [&](int64_t outer, int64_t from, int64_t elements) {
          const int64_t to = outer * outer_step + begin * lines.step + done % (count * lines.step);
          copy_elements(*operand.whole, from, elements, result.data.data() + to);
          done += elements;
        });
    begin += count;
  }
  return result;
}

Tensor scatter_selected(const Tensor& part, const Type& type, const CountedAxis& axis,
                        const OpenGate& open) {
  const Lines lines(type.dims, axis.axis);
  Tensor whole = make_zeros(type);
  const float* from = part.data.data();
  for_each_selected(lines, axis, open, [&](int64_t, int64_t to, int64_t elements) {
    std::copy_n(from, elements, whole.data.data() + to);
    from += elements;
  });
  return whole;
}

void add_elements(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add_selected(const Tensor& part, const CountedAxis& axis, const OpenGate& open,
                  Tensor& whole) {
  const Lines lines(whole.type.dims, axis.axis);
  const float* from = part.data.data();
  for_each_selected(lines, axis, open, [&](int64_t, int64_t to, int64_t elements) {
    add_elements(from, elements, whole.data.data() + to);
    from += elements;
  });
}

}  // namespace moec
