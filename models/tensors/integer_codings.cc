// Matrices of integers packed in words, with factors: int_groups, gptq, awq, mlx.
#include "ir/base/invariant.h"
#include "models/tensors/matrix_coding.h"

namespace moec {
namespace {

constexpr int64_t kWordBits = 32;

Packing packing_of(int64_t bits) {
  switch (bits) {
    case 2:
      return Packing::u2_i32;
    case 3:
      return Packing::u3_i32;
    case 5:
      return Packing::u5_i32;
    case 6:
      return Packing::u6_i32;
    case 8:
      return Packing::u8_i32;
    default:
      break;
  }
  MOEC_CHECK(bits == 4, "no packing of words has {} bits", bits);
  return Packing::u4_i32;
}

WeightView transposed(WeightView matrix) { return then(std::move(matrix), PermuteStep{{1, 0}}); }

// One value per block of `dims`, the same for all.
WeightView constant(double value, const Dims& dims) {
  return splat_view(value, {DType::f32, dims});
}

class IntegerCoding : public MatrixCoding {
 public:
  using MatrixCoding::MatrixCoding;

 protected:
  int64_t bits() const { return stored().codes.bits; }
  bool fills_words(int64_t integers) const { return integers * bits() % kWordBits == 0; }
  int64_t words(int64_t integers) const { return integers * bits() / kWordBits; }
  int64_t per_word() const { return kWordBits / bits(); }
  UnpackStep unpack() const { return {packing_of(bits())}; }

  // The matrix [out, in] from its integers and the factors and zeros of its groups, [out, groups].
  // With an index, each column has the factors of the group that the index states.
  WeightView decoded(WeightView integers, WeightView factors, WeightView zeros,
                     const std::string& index) const {
    Dims block = block_of(view_type(integers)->dims);
    if (stored().indexed) {
      const GatherStep gather{1, {tensor(index)}};
      factors = then(std::move(factors), gather);
      zeros = then(std::move(zeros), gather);
      block = {1, 1};
    }
    return then(std::move(integers), DequantStep{block, {std::move(factors)}, {std::move(zeros)}});
  }

  void add_index(const NeededTensor& tensor, const std::string& name,
                 std::vector<StoredTensor>& parts) const {
    if (stored().indexed)
      parts.push_back(
          {tensor_part(tensor, "groups of columns", name, {tensor.dims[1]}), DType::i32});
  }
};

class IntGroups : public IntegerCoding {
 public:
  using IntegerCoding::IntegerCoding;

  std::vector<std::string> names(const std::string& name) const override {
    return {name + "_packed", name + "_scale"};
  }

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    const auto& [role, name, dims] = tensor;
    if (dims.size() != 2 || !fills_words(dims[1])) return {};
    const Dims factors = factor_dims(dims);
    std::vector<StoredTensor> all = {
        {tensor_part(tensor, "integers", name + "_packed", {dims[0], words(dims[1])}), DType::i32},
        {tensor_part(tensor, "factors", name + "_scale", factors)}};
    if (stored().codes.zeros)
      all.push_back({tensor_part(tensor, "zeros", name + "_zero_point",
                                 {words(dims[0] + per_word() - 1), factors[1]}),
                     DType::i32});
    add_index(tensor, name + "_g_idx", all);
    return all;
  }

  WeightView view(const std::string& name) const override {
    WeightView packed = tensor(name + "_packed"), factors = tensor(name + "_scale");
    const bool plain = !stored().codes.zeros && !stored().indexed;
    // The offset of symmetric 4-bit integers is a part of their packing.
    if (plain && bits() == 4) {
      WeightView integers = then(std::move(packed), UnpackStep{Packing::i4_excess8});
      const Dims block = block_of(view_type(integers)->dims);
      return then(std::move(integers), DequantStep{block, {std::move(factors)}, {}});
    }
    const auto excess = static_cast<double>(int64_t{1} << (bits() - 1));
    WeightView zeros = constant(excess, factors.source_type.dims);
    if (stored().codes.zeros)
      zeros = then(transposed(then(transposed(tensor(name + "_zero_point")), unpack())),
                   SliceStep{0, 0, packed.source_type.dims[0]});
    return decoded(then(std::move(packed), unpack()), std::move(factors), std::move(zeros),
                   name + "_g_idx");
  }
};

// Matrices that are stored transposed, [in, out], under names without "weight".
class TransposedIntegers : public IntegerCoding {
 public:
  using IntegerCoding::IntegerCoding;

  std::vector<std::string> names(const std::string& name) const override {
    if (!name.ends_with(kWeight)) return {};
    return {sibling(name, "qweight"), sibling(name, "qzeros"), sibling(name, "scales")};
  }

 protected:
  std::vector<StoredTensor> parts_with(const NeededTensor& tensor, Dims integers) const {
    const Dims factors = factor_dims(tensor.dims);
    const int64_t out = tensor.dims[0], groups = factors[1];
    const std::string& name = tensor.name;
    return {
        {tensor_part(tensor, "integers", sibling(name, "qweight"), std::move(integers)),
         DType::i32},
        {tensor_part(tensor, "zeros", sibling(name, "qzeros"), {groups, words(out)}), DType::i32},
        {tensor_part(tensor, "factors", sibling(name, "scales"), {groups, out})}};
  }
};

class Gptq : public TransposedIntegers {
 public:
  using TransposedIntegers::TransposedIntegers;

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    const Dims& dims = tensor.dims;
    if (dims.size() != 2 || !tensor.name.ends_with(kWeight) || !fills_words(dims[0]) ||
        !fills_words(dims[1]))
      return {};
    std::vector<StoredTensor> all = parts_with(tensor, {words(dims[1]), dims[0]});
    add_index(tensor, sibling(tensor.name, "g_idx"), all);
    return all;
  }

  WeightView view(const std::string& name) const override {
    WeightView zeros = then(tensor(sibling(name, "qzeros")), unpack());
    if (stored().coding == WeightCoding::gptq) {
      const Dims all = view_type(zeros)->dims;
      zeros = then(std::move(zeros), BlockwiseStep{BlockwiseOp::add, all, {constant(1, {1, 1})}});
    }
    return decoded(then(transposed(tensor(sibling(name, "qweight"))), unpack()),
                   transposed(tensor(sibling(name, "scales"))), transposed(std::move(zeros)),
                   sibling(name, "g_idx"));
  }
};

class Awq : public TransposedIntegers {
 public:
  using TransposedIntegers::TransposedIntegers;

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    const Dims& dims = tensor.dims;
    if (dims.size() != 2 || !tensor.name.ends_with(kWeight) || !fills_words(dims[0])) return {};
    return parts_with(tensor, {dims[1], words(dims[0])});
  }

  WeightView view(const std::string& name) const override {
    const UnpackStep unpack{Packing::u4_awq};
    return decoded(transposed(then(tensor(sibling(name, "qweight")), unpack)),
                   transposed(tensor(sibling(name, "scales"))),
                   transposed(then(tensor(sibling(name, "qzeros")), unpack)), {});
  }
};

// A module can have other bits than the model, so the sizes of its tensors determine them.
class Mlx : public IntegerCoding {
 public:
  using IntegerCoding::IntegerCoding;

  bool stores(const std::string& name) const override {
    const TensorRange* range = find(name);
    return range && range->type.dtype == DType::i32 && name.ends_with(kWeight);
  }

  std::vector<StoredTensor> parts(const NeededTensor& tensor) const override {
    if (tensor.dims.size() < 2) return {};
    const int64_t bits = bits_in(tensor.name, tensor.dims.back());
    if (bits == 0) return {};
    Dims integers = tensor.dims, factors = tensor.dims;
    integers.back() = integers.back() * bits / kWordBits;
    factors.back() /= group();
    return {{tensor_part(tensor, "integers", tensor.name, std::move(integers)), DType::i32},
            {tensor_part(tensor, "factors", sibling(tensor.name, "scales"), factors)},
            {tensor_part(tensor, "addends", sibling(tensor.name, "biases"), factors)}};
  }

  WeightView view(const std::string& name) const override {
    WeightView integers = tensor(name), factors = tensor(sibling(name, "scales"));
    const int64_t columns = factors.source_type.dims.back() * group();
    integers = then(std::move(integers), UnpackStep{packing_of(bits_in(name, columns))});
    Dims block(integers.source_type.dims.size(), 1);
    block.back() = group();
    return then(then(std::move(integers), DequantStep{block, {std::move(factors)}, {}}),
                BlockwiseStep{BlockwiseOp::add, block, {tensor(sibling(name, "biases"))}});
  }

 private:
  int64_t group() const { return stored().block[1]; }
  // Bits of the integers of a matrix with `columns` columns; 0 if the words store no such integers.
  int64_t bits_in(const std::string& name, int64_t columns) const {
    const int64_t stored_bits = find(name)->type.dims.back() * kWordBits;
    for (const int64_t bits : {2, 3, 4, 5, 6, 8})
      if (columns * bits == stored_bits) return bits;
    return 0;
  }
};

}  // namespace

std::unique_ptr<MatrixCoding> integer_coding(const WeightTable& weights,
                                             const StoredWeights& stored) {
  switch (stored.coding) {
    case WeightCoding::int_groups:
      return std::make_unique<IntGroups>(weights, stored);
    case WeightCoding::gptq:
    case WeightCoding::gptq_v2:
      return std::make_unique<Gptq>(weights, stored);
    case WeightCoding::awq:
      return std::make_unique<Awq>(weights, stored);
    case WeightCoding::mlx:
      return std::make_unique<Mlx>(weights, stored);
    case WeightCoding::plain:
    case WeightCoding::fp8_blocks:
    case WeightCoding::mxfp4:
    case WeightCoding::nvfp4:
    case WeightCoding::nf4:
    case WeightCoding::fp4:
    case WeightCoding::int8_rows:
    case WeightCoding::gguf_blocks:
      break;
  }
  return nullptr;
}

}  // namespace moec
