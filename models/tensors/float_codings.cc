// Matrices of small floats with factors: fp8_blocks, mxfp4, nvfp4.
#include <algorithm>

#include "models/tensors/matrix_coding.h"

namespace moec {
namespace {

// The sizes of a stored tensor if they equal `dims` except for sizes of 1 at the end, else `dims`.
Dims stored_dims(const TensorRange* found, const Dims& dims) {
  if (found == nullptr) return dims;
  Dims sizes = found->type.dims;
  sizes.resize(std::max(sizes.size(), dims.size()), 1);
  Dims wanted = dims;
  wanted.resize(sizes.size(), 1);
  return sizes == wanted ? found->type.dims : dims;
}

class Fp8Blocks : public MatrixCoding {
 public:
  using MatrixCoding::MatrixCoding;

  bool stores(const std::string& name) const override {
    const TensorRange* range = find(name);
    return range && range->type.dtype == DType::f8_e4m3 &&
           range->type.dims.size() == stored().block.size();
  }

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    if (tensor.dims.size() != stored().block.size()) return {};
    const std::string factors = factors_of(tensor.name);
    return {{tensor, DType::f8_e4m3},
            {tensor_part(tensor, "factors", factors,
                         stored_dims(find(factors), factor_dims(tensor.dims)))}};
  }

  WeightView view(const std::string& name) const override {
    WeightView numbers = tensor(name);
    const Dims dims = numbers.source_type.dims;
    WeightView factors = then(tensor(factors_of(name)), ReshapeStep{factor_dims(dims)});
    return then(std::move(numbers), DequantStep{block_of(dims), {std::move(factors)}, {}});
  }

 private:
  // Despite its name, _scale_inv is the factor itself.
  std::string factors_of(const std::string& name) const {
    return find(name + "_scale") ? name + "_scale" : name + "_scale_inv";
  }
};

class Mxfp4 : public MatrixCoding {
 public:
  using MatrixCoding::MatrixCoding;

  std::vector<std::string> names(const std::string& name) const override {
    return {name + "_blocks", name + "_scales"};
  }

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    // Only transposed tensors define the axis that is cut into blocks.
    if (!tensor.role.ends_with("_in_out")) return {};
    const int64_t experts = tensor.dims[0], in = tensor.dims[1], out = tensor.dims[2];
    const int64_t blocks = in / kMxBlock;
    return {{tensor_part(tensor, "blocks", tensor.name + "_blocks",
                         {experts, out, blocks, kMxBlock / 2}),
             DType::u8},
            {tensor_part(tensor, "scales", tensor.name + "_scales", {experts, out, blocks}),
             DType::u8}};
  }

  // The stored tensor is [experts, out, blocks, 16]: blocks of 32 values along `in`, two per byte.
  // The model's tensor is [experts, in, out], so the view ends with a permutation.
  WeightView view(const std::string& name) const override {
    WeightView blocks = tensor(name + "_blocks");
    const Dims& dims = blocks.source_type.dims;
    const Dims rows = {dims[0], dims[1], dims[2] * dims[3]};
    WeightView codes =
        then(then(std::move(blocks), ReshapeStep{rows}), UnpackStep{Packing::f4_e2m1});
    WeightView scales = then(tensor(name + "_scales"), UnpackStep{Packing::f8_e8m0});
    return then(then(std::move(codes), DequantStep{{1, 1, kMxBlock}, {std::move(scales)}, {}}),
                PermuteStep{{0, 2, 1}});
  }
};

class Nvfp4 : public MatrixCoding {
 public:
  using MatrixCoding::MatrixCoding;

  std::vector<std::string> names(const std::string& name) const override {
    return {name + "_packed"};
  }

  bool stores(const std::string& name) const override {
    const TensorRange* range = find(name);
    return range ? range->type.dtype == DType::u8 : MatrixCoding::stores(name);
  }

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    if (tensor.dims.size() != 2 || tensor.dims[1] % kNvBlock != 0) return {};
    const std::string &name = tensor.name, whole = factor_of(name);
    const int64_t out = tensor.dims[0], in = tensor.dims[1];
    return {{tensor_part(tensor, "numbers", numbers_of(name), {out, in / 2}), DType::u8},
            {tensor_part(tensor, "factors", name + "_scale", {out, in / kNvBlock}), DType::f8_e4m3},
            {tensor_part(tensor, "factor", whole, stored_dims(find(whole), {})), DType::f32}};
  }

  WeightView view(const std::string& name) const override {
    WeightView numbers = then(tensor(numbers_of(name)), UnpackStep{Packing::f4_e2m1});
    WeightView factors = then(tensor(name + "_scale"), CastStep{DType::f32});
    const Dims all = factors.source_type.dims;
    const std::string whole = factor_of(name);
    WeightView factor = then(tensor(whole), ReshapeStep{{1, 1}});
    if (whole.ends_with("_global_scale"))
      factors =
          then(std::move(factors), BlockwiseStep{BlockwiseOp::divide, all, {std::move(factor)}});
    else
      factors = then(std::move(factors), DequantStep{all, {std::move(factor)}, {}});
    return then(std::move(numbers), DequantStep{{1, kNvBlock}, {std::move(factors)}, {}});
  }

 private:
  std::string numbers_of(const std::string& name) const {
    return find(name) ? name : name + "_packed";
  }
  // ModelOpt multiplies by a factor, compressed-tensors divides by one.
  std::string factor_of(const std::string& name) const {
    return find(name) ? name + "_scale_2" : name + "_global_scale";
  }
};

}  // namespace

std::unique_ptr<MatrixCoding> float_coding(const WeightTable& weights,
                                           const StoredWeights& stored) {
  switch (stored.coding) {
    case WeightCoding::fp8_blocks:
      return std::make_unique<Fp8Blocks>(weights, stored);
    case WeightCoding::mxfp4:
      return std::make_unique<Mxfp4>(weights, stored);
    case WeightCoding::nvfp4:
      return std::make_unique<Nvfp4>(weights, stored);
    case WeightCoding::plain:
    case WeightCoding::int_groups:
    case WeightCoding::gptq:
    case WeightCoding::gptq_v2:
    case WeightCoding::awq:
    case WeightCoding::mlx:
    case WeightCoding::nf4:
    case WeightCoding::fp4:
    case WeightCoding::int8_rows:
    case WeightCoding::gguf_blocks:
      break;
  }
  return nullptr;
}

}  // namespace moec
