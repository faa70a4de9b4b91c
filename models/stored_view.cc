#include "models/stored_view.h"

#include <fmt/format.h>

#include "ir/invariant.h"

namespace moec {
namespace {

bool is_fp8(const StoredWeights& stored, const Type& type) {
  return type.dtype == DType::f8_e4m3 && stored.coding == WeightCoding::fp8_blocks &&
         type.dims.size() == stored.block.size();
}

std::string factors_of(const std::string& name) { return name + "_scale_inv"; }
std::string blocks_of(const std::string& name) { return name + "_blocks"; }
std::string scales_of(const std::string& name) { return name + "_scales"; }

bool is_microscaled(const WeightTable& weights, const StoredWeights& stored,
                    const std::string& name) {
  return stored.coding == WeightCoding::mxfp4 && weights.find(name) == nullptr &&
         (weights.find(blocks_of(name)) != nullptr || weights.find(scales_of(name)) != nullptr);
}

NeededTensor part_of(const NeededTensor& tensor, std::string_view part, std::string name,
                     Dims dims) {
  return {fmt::format("{} {}", tensor.role, part), std::move(name), std::move(dims)};
}

StoredTensor fp8_factors(const StoredWeights& stored, const NeededTensor& tensor, Dims dims) {
  for (size_t axis = 0; axis < dims.size(); ++axis)
    dims[axis] = (dims[axis] - 1) / stored.block[axis] + 1;
  return {part_of(tensor, "factors", factors_of(tensor.name), std::move(dims))};
}

std::vector<StoredTensor> microscaled_parts(const NeededTensor& tensor) {
  const int64_t experts = tensor.dims[0], in = tensor.dims[1], out = tensor.dims[2];
  const int64_t blocks = in / kMxBlock;
  return {{part_of(tensor, "blocks", blocks_of(tensor.name), {experts, out, blocks, kMxBlock / 2}),
           DType::u8},
          {part_of(tensor, "scales", scales_of(tensor.name), {experts, out, blocks}), DType::u8}};
}

WeightView stored_tensor(const WeightTable& weights, const std::string& name) {
  const TensorRange* range = weights.find(name);
  MOEC_CHECK(range != nullptr, "the plan has no tensor {}", name);
  return tensor_view(name, range->type);
}

WeightView microscaled_view(const WeightTable& weights, const std::string& name) {
  WeightView blocks = stored_tensor(weights, blocks_of(name));
  const Dims& dims = blocks.source_type.dims;
  const Dims rows = {dims[0], dims[1], dims[2] * dims[3]};
  WeightView codes = then(then(std::move(blocks), ReshapeStep{rows}), UnpackStep{Packing::f4_e2m1});
  WeightView scales = then(stored_tensor(weights, scales_of(name)), UnpackStep{Packing::f8_e8m0});
  return then(then(std::move(codes), DequantStep{{1, 1, kMxBlock}, {std::move(scales)}}),
              PermuteStep{{0, 2, 1}});
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const WeightTable& weights, const StoredWeights& stored,
                                         const NeededTensor& tensor) {
  if (is_microscaled(weights, stored, tensor.name) && tensor.role.ends_with("_in_out"))
    return microscaled_parts(tensor);
  const TensorRange* range = weights.find(tensor.name);
  if (range == nullptr || !is_fp8(stored, range->type)) return {{tensor}};
  return {{tensor, DType::f8_e4m3}, fp8_factors(stored, tensor, range->type.dims)};
}

std::vector<std::string> stored_names(const StoredWeights& stored, const std::string& name) {
  if (stored.coding != WeightCoding::mxfp4) return {name};
  return {name, blocks_of(name), scales_of(name)};
}

WeightView stored_view(const WeightTable& weights, const StoredWeights& stored, std::string name) {
  if (is_microscaled(weights, stored, name)) return microscaled_view(weights, name);
  WeightView view = stored_tensor(weights, name);
  if (!is_fp8(stored, view.source_type)) return view;
  return then(std::move(view),
              DequantStep{stored.block, {stored_tensor(weights, factors_of(name))}});
}

}  // namespace moec
