// Matrices that bitsandbytes quantized: nf4, fp4, int8_rows.
#include <fmt/format.h>

#include "ir/base/invariant.h"
#include "models/tensors/matrix_coding.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

constexpr int64_t kEntries = 16, kNestedEntries = 256;  // of the tables of 4 and 8 bits

bool is_bytes(const TensorRange* range) {
  return range != nullptr && range->type.dtype == DType::u8;
}

int64_t blocks_of(int64_t elements, int64_t block) { return (elements - 1) / block + 1; }

// Replaces indices by the entries of one table. The indices are a vector.
WeightView looked_up(WeightView indices, int64_t count, WeightView table) {
  const int64_t entries = table.source_type.elements();
  return then(std::move(indices),
              LutStep{{count}, {then(std::move(table), ReshapeStep{{1, entries}})}});
}

// A flat matrix of 4-bit indices: its blocks ignore the rows, so the view is a vector until its
// last step.
class TableBlocks : public MatrixCoding {
 public:
  using MatrixCoding::MatrixCoding;

  bool stores(const std::string& name) const override { return is_bytes(find(name)); }

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    if (tensor.dims.rank() != 2) return {};
    const std::string& name = tensor.name;
    const int64_t elements = tensor.dims[0] * tensor.dims[1];
    const int64_t blocks = blocks_of(elements, block());
    const std::string state = quant_state_of(stored(), name);
    const TensorRange* found = find(state);
    std::vector<StoredTensor> all = {
        {tensor_part(tensor, "indices", name, {blocks_of(elements, 2), 1}), DType::u8},
        {tensor_part(tensor, "factors", name + ".absmax", {blocks}),
         stored().nested ? DType::u8 : DType::f32},
        {tensor_part(tensor, "table", name + ".quant_map", {kEntries}), DType::f32},
        {tensor_part(tensor, "description", state, found ? found->type.dims : Dims{1}), DType::u8}};
    if (!stored().nested) return all;
    all.push_back({tensor_part(tensor, "factors of factors", name + ".nested_absmax",
                               {blocks_of(blocks, kNestedBlock)}),
                   DType::f32});
    all.push_back(
        {tensor_part(tensor, "table of factors", name + ".nested_quant_map", {kNestedEntries}),
         DType::f32});
    return all;
  }

  WeightView view(const std::string& name) const override {
    const Dims dims = derived(decoded_state_of(name)).source_type.dims;
    const int64_t elements = dims[0] * dims[1];
    WeightView bytes = tensor(name);
    const Dims flat = {bytes.source_type.elements()};
    WeightView indices =
        then(then(std::move(bytes), ReshapeStep{flat}), UnpackStep{Packing::u4_high});
    // The last byte has an unused half if the number of elements is odd.
    indices = then(std::move(indices), SliceStep{0, 0, elements});
    WeightView values = looked_up(std::move(indices), elements, tensor(name + ".quant_map"));
    return then(then(std::move(values), DequantStep{{block()}, {factors(name)}, {}}),
                ReshapeStep{dims});
  }

 private:
  int64_t block() const { return stored().block[1]; }

  WeightView factors(const std::string& name) const {
    WeightView factors = tensor(name + ".absmax");
    if (!stored().nested) return factors;
    const int64_t count = factors.source_type.elements();
    factors = looked_up(then(std::move(factors), UnpackStep{Packing::u8}), count,
                        tensor(name + ".nested_quant_map"));
    factors = then(std::move(factors),
                   DequantStep{{kNestedBlock}, {tensor(name + ".nested_absmax")}, {}});
    const auto* offset = std::get_if<SplatSource>(&derived(decoded_state_of(name)).source);
    MOEC_CHECK(offset != nullptr, "the offset of {} is not a constant", name);
    return then(
        std::move(factors),
        BlockwiseStep{BlockwiseOp::add, {count}, {splat_view(offset->value, {DType::f32, {1}})}});
  }
};

class Int8Rows : public MatrixCoding {
 public:
  using MatrixCoding::MatrixCoding;

  bool stores(const std::string& name) const override {
    return is_bytes(find(name)) && name.ends_with(kWeight);
  }

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    if (tensor.dims.rank() != 2) return {};
    std::vector<StoredTensor> all = {
        {tensor_part(tensor, "integers", tensor.name, tensor.dims), DType::u8},
        {tensor_part(tensor, "factors", sibling(tensor.name, "SCB"), {tensor.dims[0]}),
         DType::f32}};
    const std::string format = weight_format_of(tensor.name);
    // Old releases do not store it.
    if (const TensorRange* found = find(format))
      all.push_back({tensor_part(tensor, "format", format, found->type.dims), DType::u8});
    return all;
  }

  // bitsandbytes multiplies by this constant, not by the factor of a row / 127, which rounds
  // differently.
  WeightView view(const std::string& name) const override {
    constexpr double kPerUnit = 7.874015718698502e-3;  // 1 / 127 in f32
    WeightView integers = then(tensor(name), UnpackStep{Packing::i8});
    const Dims dims = integers.source_type.dims;
    WeightView factors = then(tensor(sibling(name, "SCB")), ReshapeStep{{dims[0], 1}});
    return then(then(std::move(integers), DequantStep{{1, dims[1]}, {std::move(factors)}, {}}),
                ScaleStep{kPerUnit});
  }
};

}  // namespace

bool is_of_bitsandbytes(WeightCoding coding) {
  return coding == WeightCoding::nf4 || coding == WeightCoding::fp4 ||
         coding == WeightCoding::int8_rows;
}

std::string quant_state_of(const StoredWeights& stored, const std::string& name) {
  return fmt::format("{}.quant_state.bitsandbytes__{}", name, enum_name(stored.coding));
}

std::string decoded_state_of(const std::string& name) { return name + ".quant_state"; }

std::string weight_format_of(const std::string& name) { return sibling(name, "weight_format"); }

std::unique_ptr<MatrixCoding> bitsandbytes_coding(const WeightTable& weights,
                                                  const StoredWeights& stored) {
  switch (stored.coding) {
    case WeightCoding::nf4:
    case WeightCoding::fp4:
      return std::make_unique<TableBlocks>(weights, stored);
    case WeightCoding::int8_rows:
      return std::make_unique<Int8Rows>(weights, stored);
    case WeightCoding::plain:
    case WeightCoding::fp8_blocks:
    case WeightCoding::mxfp4:
    case WeightCoding::nvfp4:
    case WeightCoding::int_groups:
    case WeightCoding::gptq:
    case WeightCoding::gptq_v2:
    case WeightCoding::awq:
    case WeightCoding::mlx:
    case WeightCoding::gguf_blocks:
      break;
  }
  return nullptr;
}

}  // namespace moec
