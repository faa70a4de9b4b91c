#include <algorithm>

#include "backends/reference/broadcast.h"
#include "backends/reference/eval.h"
#include "backends/reference/tensor_pool.h"

namespace moec {
namespace {

// Returns a tensor whose element [i…] is element offset + Σ i·stride of x.
Tensor gather(const Tensor& x, const Type& type, int64_t offset, PerAxis strides) {
  Tensor result = make_tensor(type);
  walk<1>(type.dims, {strides}, [&](const StridedRun<1>& run) {
    float* to = result.data.data() + run.index;
    const float* from = x.data.data() + offset + run.offset[0];
    if (run.step[0] == 1)
      std::copy_n(from, run.count, to);
    else
      for (int64_t i = 0; i < run.count; ++i) to[i] = from[i * run.step[0]];
  });
  return result;
}

}  // namespace

Tensor eval(const Slice& op, const Call& call) {
  const PerAxis strides = row_strides(call[0].type.dims);
  // A slice keeps the strides of the operand. Only the offset of the first element changes.
  return gather(call[0], call.type(), op.begin * strides[static_cast<size_t>(op.axis)], strides);
}

Tensor eval(const Transpose& op, const Call& call) {
  const PerAxis strides = row_strides(call[0].type.dims);
  PerAxis permuted;
  for (int64_t axis : op.perm) permuted.push_back(strides[static_cast<size_t>(axis)]);
  return gather(call[0], call.type(), 0, permuted);
}

// Reshapes keep the row-major order, so the elements stay as they are.
Tensor eval(const Reshape&, const Call& call) { return {call.type(), call[0].data}; }

// For each position of the axes before `axis`, copies one contiguous range of each part.
Tensor eval(const Concat& op, const Call& call) {
  Tensor result = make_tensor(call.type());
  auto to = result.data.begin();
  int64_t outer = 1;
  for (int64_t axis = 0; axis < op.axis; ++axis) outer *= call.type().dims.at(axis);
  for (int64_t i = 0; i < outer; ++i) {
    for (const Tensor* part : call.operands) {
      const auto run = static_cast<std::ptrdiff_t>(part->data.size()) / outer;
      to = std::copy_n(part->data.begin() + i * run, run, to);
    }
  }
  return result;
}

Tensor eval(const Constant& op, const Call& call) {
  const auto count = static_cast<size_t>(call.type().elements());
  // A single value stands for all elements.
  if (op.values.size() == 1)
    return {call.type(), std::vector<float>(count, static_cast<float>(op.values.front()))};
  return {call.type(), std::vector<float>(op.values.begin(), op.values.end())};
}

}  // namespace moec
