#include "models/tensors/stored_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {
namespace {

bool is_fp8(const StoredWeights& stored, const Type& type) {
  return type.dtype == DType::f8_e4m3 && stored.coding == WeightCoding::fp8_blocks &&
         type.dims.size() == stored.block.size();
}

// Suffixes of the parts in checkpoints: DeepSeek-V3 (fp8 in blocks; despite its name _scale_inv is
// the factor itself), gpt-oss (MXFP4: _blocks, _scales) and compressed-tensors (grouped int4:
// _packed, _scale).
std::string factors_of(const std::string& name) { return name + "_scale_inv"; }
std::string blocks_of(const std::string& name) { return name + "_blocks"; }
std::string scales_of(const std::string& name) { return name + "_scales"; }
std::string packed_of(const std::string& name) { return name + "_packed"; }
std::string group_factors_of(const std::string& name) { return name + "_scale"; }

// True if the table has the parts of this format instead of the tensor.
bool is_in_parts(const WeightTable& weights, const StoredWeights& stored, WeightCoding coding,
                 const std::string& name) {
  if (stored.coding != coding) return false;
  const std::vector<std::string> names = stored_names(stored, name);
  return weights.find(name) == nullptr &&
         std::any_of(names.begin(), names.end(),
                     [&](const std::string& part) { return weights.find(part) != nullptr; });
}
bool is_microscaled(const WeightTable& weights, const StoredWeights& stored,
                    const std::string& name) {
  return is_in_parts(weights, stored, WeightCoding::mxfp4, name);
}
bool is_int4(const WeightTable& weights, const StoredWeights& stored, const std::string& name) {
  return is_in_parts(weights, stored, WeightCoding::int4_groups, name);
}

NeededTensor part_of(const NeededTensor& tensor, std::string_view part, std::string name,
                     Dims dims) {
  return {fmt::format("{} {}", tensor.role, part), std::move(name), std::move(dims)};
}

// The factors of a matrix, one per block; the last block of a row or column may be partial.
StoredTensor block_factors(const StoredWeights& stored, const NeededTensor& tensor,
                           std::string name) {
  Dims dims = tensor.dims;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    // Rounds up. The usual (a + b - 1) / b could overflow.
    dims[axis] = (dims[axis] - 1) / stored.block[axis] + 1;
  return {part_of(tensor, "factors", std::move(name), std::move(dims))};
}

std::vector<StoredTensor> microscaled_parts(const NeededTensor& tensor) {
  const int64_t experts = tensor.dims[0], in = tensor.dims[1], out = tensor.dims[2];
  const int64_t blocks = in / kMxBlock;
  return {{part_of(tensor, "blocks", blocks_of(tensor.name), {experts, out, blocks, kMxBlock / 2}),
           DType::u8},
          {part_of(tensor, "scales", scales_of(tensor.name), {experts, out, blocks}), DType::u8}};
}

std::vector<StoredTensor> int4_parts(const StoredWeights& stored, const NeededTensor& tensor) {
  // Each i32 packs kInt4Packed integers of a row.
  const Dims packed = {tensor.dims[0], tensor.dims[1] / kInt4Packed};
  return {{part_of(tensor, "integers", packed_of(tensor.name), packed), DType::i32},
          block_factors(stored, tensor, group_factors_of(tensor.name))};
}

WeightView stored_tensor(const WeightTable& weights, const std::string& name) {
  const TensorRange* range = weights.find(name);
  MOEC_CHECK(range != nullptr, "the weight table has no tensor {}", name);
  return tensor_view(name, range->type);
}

// The stored tensor is [experts, out, blocks, 16]: blocks of 32 values along `in`, two per byte.
// The model's tensor is [experts, in, out], so the view ends with a permutation.
WeightView microscaled_view(const WeightTable& weights, const std::string& name) {
  WeightView blocks = stored_tensor(weights, blocks_of(name));
  const Dims& dims = blocks.source_type.dims;
  const Dims rows = {dims[0], dims[1], dims[2] * dims[3]};
  WeightView codes = then(then(std::move(blocks), ReshapeStep{rows}), UnpackStep{Packing::f4_e2m1});
  WeightView scales = then(stored_tensor(weights, scales_of(name)), UnpackStep{Packing::f8_e8m0});
  return then(then(std::move(codes), DequantStep{{1, 1, kMxBlock}, {std::move(scales)}}),
              PermuteStep{{0, 2, 1}});
}

WeightView int4_view(const WeightTable& weights, const StoredWeights& stored,
                     const std::string& name) {
  WeightView integers =
      then(stored_tensor(weights, packed_of(name)), UnpackStep{Packing::i4_excess8});
  return then(std::move(integers),
              DequantStep{stored.block, {stored_tensor(weights, group_factors_of(name))}});
}

// The tensors that a view reads, without duplicates.
std::vector<StoredTensor> sources_of(const WeightView& view, const std::string& role) {
  std::vector<StoredTensor> sources;
  for_each_tensor(view, [&](const TensorSource& tensor, const Type& type) {
    StoredTensor source{{role, tensor.name, type.dims}, type.dtype};
    if (std::find(sources.begin(), sources.end(), source) == sources.end())
      sources.push_back(std::move(source));
  });
  return sources;
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const WeightTable& weights, const StoredWeights& stored,
                                         const NeededTensor& tensor) {
  // The view of a derived tensor names the stored tensors from which it is computed.
  if (const WeightView* derived = weights.find_derived(tensor.name))
    return sources_of(*derived, tensor.role);
  if (is_microscaled(weights, stored, tensor.name) && tensor.role.ends_with("_in_out"))
    return microscaled_parts(tensor);
  if (is_int4(weights, stored, tensor.name) && tensor.dims.size() == 2 &&
      tensor.dims[1] % kInt4Packed == 0)
    return int4_parts(stored, tensor);
  const TensorRange* range = weights.find(tensor.name);
  if (range == nullptr || !is_fp8(stored, range->type) || tensor.dims.size() != stored.block.size())
    return {{tensor}};
  return {{tensor, DType::f8_e4m3}, block_factors(stored, tensor, factors_of(tensor.name))};
}

std::vector<std::string> stored_names(const StoredWeights& stored, const std::string& name) {
  switch (stored.coding) {
    case WeightCoding::mxfp4:
      return {name, blocks_of(name), scales_of(name)};
    case WeightCoding::int4_groups:
      return {name, packed_of(name), group_factors_of(name)};
    case WeightCoding::plain:
    case WeightCoding::fp8_blocks:
    case WeightCoding::gguf_blocks:
      break;
  }
  return {name};
}

WeightView stored_view(const WeightTable& weights, const StoredWeights& stored,
                       const std::string& name) {
  if (const WeightView* derived = weights.find_derived(name)) return *derived;
  if (is_microscaled(weights, stored, name)) return microscaled_view(weights, name);
  if (is_int4(weights, stored, name)) return int4_view(weights, stored, name);
  WeightView view = stored_tensor(weights, name);
  if (!is_fp8(stored, view.source_type)) return view;
  return then(std::move(view),
              DequantStep{stored.block, {stored_tensor(weights, factors_of(name))}});
}

}  // namespace moec
