#include "backends/weights/encode/code_blocks.h"

#include <fmt/format.h>

namespace moec {
namespace {

// Product of the sizes of axes [begin, end).
int64_t product(const Dims& dims, int64_t begin, int64_t end) {
  int64_t all = 1;
  for (int64_t axis = begin; axis < end; ++axis) all *= dims.at(axis);
  return all;
}

// Returns true if the blocks remain contiguous when these axes are joined: at most one axis is cut,
// all axes after it are whole, and all before it have blocks of size 1.
bool is_one_axis(const Dims& dims, const Dims& block, int64_t begin, int64_t end) {
  int64_t axis = begin;
  while (axis < end && block.at(axis) == 1) ++axis;
  for (++axis; axis < end; ++axis)
    if (block.at(axis) != dims.at(axis)) return false;
  return true;
}

}  // namespace

Result<CodeBlocks> code_blocks(const Encoding& encoding, const Type& type, int64_t input_axis) {
  const Dims &dims = type.dims, block = block_of(encoding);
  const int64_t rank = dims.rank(), behind = input_axis + 1;
  const bool transposed = input_axis >= 0 && behind < rank && product(dims, behind, rank) > 1;
  const int64_t begin = transposed ? behind : 0, end = transposed ? rank : input_axis;
  const bool matrix =
      input_axis >= 0 && behind <= rank && (!transposed || product(dims, 0, input_axis) == 1) &&
      is_one_axis(dims, block, begin, end) && (!transposed || code_dims(encoding, type) == dims);
  if (!matrix)
    return fail("calibrate.shape",
                fmt::format("{} with the inputs on axis {} is not a matrix of outputs and inputs",
                            to_string(type), input_axis),
                "encode this weight without a calibration");
  return CodeBlocks{product(dims, begin, end), dims.at(input_axis), product(block, begin, end),
                    block.at(input_axis), transposed};
}

}  // namespace moec
