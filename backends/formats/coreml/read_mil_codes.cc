#include "backends/formats/coreml/read_mil_codes.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>
#include <functional>
#include <set>

#include "backends/formats/coreml/mil_arguments.h"
#include "backends/formats/coreml/mil_ops.h"
#include "backends/formats/coreml/mil_values.h"
#include "ir/graph/encoding.h"

namespace moec {

WeightView add_part(const std::string& name, const Type& type, uint64_t offset,
                    const SourceContext& context) {
  // Adds the blob file to the table with its first part, because the size is known only after
  // locate() has opened the file.
  if (context.weights.files.empty())
    context.weights.files.push_back({context.blobs.path(), context.blobs.bytes()});
  context.weights.tensors[name] = {0, offset, type};
  return tensor_view(name, type);
}

Result<OpData> read_source(const mlmodel::Value& value, const std::string& name,
                           const SourceContext& context) {
  MOEC_ASSIGN(Type type, fixed_type(value.type().tensortype(), name));
  std::vector<double> values;
  if (value.has_blobfilevalue()) {
    MOEC_ASSIGN(const uint64_t offset, context.blobs.locate(value, type, name));
    if (!context.is_constant) return Weight{add_part(name, type, offset, context)};
    MOEC_ASSIGN(values, context.blobs.values(offset, type, name));
  } else {
    MOEC_ASSIGN(values, immediate_values(value, type, name));
  }
  const auto differs = std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>());
  if (differs == values.end()) values.resize(1);
  return Constant{std::move(type), std::move(values)};
}

namespace {

using mlmodel::Operation;

tl::unexpected<Diagnostics> wrong(const Operation& operation, std::string cause) {
  return fail("coreml.argument", std::move(cause), "export the model again",
              {.op = operation_label(operation)});
}

// An integer type of codes and its packing.
struct CodeType {
  mlmodel::DataType type;
  BlobFile::Packed packed;
  int64_t bits;
};
// The element types of programs and of blobs have different numbers.
constexpr CodeType kCodeTypes[] = {
    {mlmodel::INT8, {4, 8}, 8},   {mlmodel::INT4, {8, 4}, 4},   {mlmodel::UINT8, {3, 8}, 8},
    {mlmodel::UINT1, {9, 1}, 1},  {mlmodel::UINT2, {10, 2}, 2}, {mlmodel::UINT4, {11, 4}, 4},
    {mlmodel::UINT3, {12, 3}, 3}, {mlmodel::UINT6, {13, 6}, 6},
};

// Reads the parts of one operation.
class CodedWeightReader {
 public:
  CodedWeightReader(const Operation& operation, const SourceContext& context)
      : operation_(operation), context_(context) {}

  Result<WeightView> read() {
    if (operation_.outputs_size() != 1 || operation_.blocks_size() != 0)
      return wrong(operation_,
                   fmt::format("{} must have one output and no blocks", operation_.type()));
    MOEC_ASSIGN(type_, fixed_type(operation_.outputs(0).type().tensortype(), name()));
    if (operation_.type() == kAffineDequantize) return read_affine();
    return operation_.type() == kLutToDense ? read_palette() : read_blockwise();
  }

 private:
  const std::string& name() const { return operation_.outputs(0).name(); }

  // Returns the value of an attribute or an input, or null if it is absent.
  // constexpr_affine_dequantize has attributes; the other two ops have inputs. An input that names
  // a const is rejected.
  const mlmodel::Value* find(const char* argument) {
    known_.insert(argument);
    const auto attribute = operation_.attributes().find(argument);
    if (attribute != operation_.attributes().end()) return &attribute->second;
    const auto input = operation_.inputs().find(argument);
    if (input == operation_.inputs().end() || input->second.arguments_size() != 1 ||
        !input->second.arguments(0).has_value())
      return nullptr;
    return &input->second.arguments(0).value();
  }

  Result<const mlmodel::Value*> require(const char* argument) {
    if (const mlmodel::Value* value = find(argument)) return value;
    return wrong(operation_, fmt::format("argument \"{}\" is missing or not a value", argument));
  }

  // Fails on arguments that were not requested.
  Status finish() const {
    for (const auto& [argument, value] : operation_.attributes())
      if (argument != "name" && !known_.contains(argument))
        return wrong(operation_, fmt::format("argument \"{}\" is unsupported", argument));
    for (const auto& [argument, value] : operation_.inputs())
      if (!known_.contains(argument))
        return wrong(operation_, fmt::format("argument \"{}\" is unsupported", argument));
    return {};
  }

  // Returns the type of the codes. Fails unless the codes have the sizes `dims`.
  Result<const CodeType*> code_type(const mlmodel::Value& value, const Dims& dims) const {
    const mlmodel::TensorType& stated = value.type().tensortype();
    Dims sizes;
    for (const auto& dimension : stated.dimensions())
      sizes.push_back(static_cast<int64_t>(dimension.constant().size()));
    if (sizes != dims || stated.rank() != dims.rank())
      return wrong(operation_, fmt::format("the codes have sizes {}, expected {}", to_string(sizes),
                                           to_string(dims)));
    for (const CodeType& known : kCodeTypes)
      if (known.type == stated.datatype()) return &known;
    return wrong(operation_, fmt::format("codes of element type {} are unsupported",
                                         static_cast<int>(stated.datatype())));
  }

  // A view of a part in the blob file: packed codes if `packed`, else floats of the weight's
  // element type.
  Result<WeightView> part(const mlmodel::Value& value, const StoredPart& stored,
                          const BlobFile::Packed* packed, const std::string& name) {
    const uint64_t bits = packed ? static_cast<uint64_t>(packed->bits) : 0;
    MOEC_ASSIGN(const uint64_t offset,
                packed ? context_.blobs.locate(value, *packed, elements_of(value) * bits, name)
                       : context_.blobs.locate(value, stored.type, name));
    return add_part(name, stored.type, offset, context_);
  }

  static uint64_t elements_of(const mlmodel::Value& value) {
    uint64_t elements = 1;
    for (const auto& dimension : value.type().tensortype().dimensions())
      elements *= dimension.constant().size();
    return elements;
  }

  // Checks that a part has the weight's element type and the expected number of elements.
  Status check_floats(const mlmodel::Value& value, const Type& type) const {
    const mlmodel::TensorType& stated = value.type().tensortype();
    const bool f16 = stated.datatype() == mlmodel::FLOAT16;
    const bool same = (f16 ? DType::f16 : DType::f32) == type.dtype &&
                      (f16 || stated.datatype() == mlmodel::FLOAT32);
    if (same && elements_of(value) == static_cast<uint64_t>(type.elements())) return {};
    return wrong(operation_,
                 fmt::format("a part has {} elements of type {}, expected {}", elements_of(value),
                             static_cast<int>(stated.datatype()), to_string(type)));
  }

  struct Values {
    const mlmodel::Value* codes = nullptr;
    const mlmodel::Value* floats = nullptr;  // scales or a table
    const mlmodel::Value* zeros = nullptr;   // may be absent
  };

  Result<WeightView> decode(const Encoding& encoding, const Values& values) {
    // The callers have requested all arguments, so finish() can reject unknown arguments before any
    // view is made.
    MOEC_TRY(finish());
    MOEC_TRY(check_encoding(encoding, type_));
    std::vector<WeightView> views;
    for (const StoredPart& stored : stored_parts(encoding, type_)) {
      const bool is_code = stored.part == WeightPart::codes;
      const mlmodel::Value& value = is_code                            ? *values.codes
                                    : stored.part == WeightPart::zeros ? *values.zeros
                                                                       : *values.floats;
      const BlobFile::Packed* packed = nullptr;
      if (is_float(stored.type.dtype)) {
        MOEC_TRY(check_floats(value, stored.type));
      } else {
        MOEC_ASSIGN(const CodeType* code, code_type(value, is_code ? type_.dims : zero_dims_));
        packed = &code->packed;
      }
      MOEC_ASSIGN(WeightView view,
                  part(value, stored, packed,
                       is_code ? name() : fmt::format("{}.{}", name(), enum_name(stored.part))));
      views.push_back(std::move(view));
    }
    return decoded_view(encoding, type_, std::move(views));
  }

  // One scale per index of `axis`, so a block covers every other axis fully.
  Result<WeightView> read_affine() {
    MOEC_ASSIGN(const mlmodel::Value* codes, require("quantized_data"));
    MOEC_ASSIGN(const mlmodel::Value* scales, require("scale"));
    MOEC_ASSIGN(const mlmodel::Value* zeros, require("zero_point"));
    MOEC_ASSIGN(const mlmodel::Value* axis_value, require("axis"));
    MOEC_ASSIGN(const int64_t axis, integer_of(*axis_value, "axis"));
    if (axis < 0 || axis >= type_.rank())
      return wrong(operation_, fmt::format("axis {} is outside {}", axis, to_string(type_)));
    MOEC_ASSIGN(const CodeType* code, code_type(*codes, type_.dims));
    if (code->type != mlmodel::INT8) return wrong(operation_, "codes must be int8");
    AffineEncoding affine{8, type_.dims};
    affine.block.at(axis) = 1;
    affine.zero_point = zeros->has_blobfilevalue();
    zero_dims_ = {type_.dims.at(axis)};
    if (!affine.zero_point && !is_zero(*zeros))
      return wrong(operation_, "a zero point must be 0 or stored in the blob file");
    return decode(affine, {codes, scales, zeros});
  }

  // Like coremltools, moec stores immediate int8 values as bytes.
  static bool is_zero(const mlmodel::Value& value) {
    const mlmodel::TensorType& type = value.type().tensortype();
    return type.datatype() == mlmodel::INT8 && type.rank() == 0 &&
           value.immediatevalue().tensor().bytes().values() == std::string(1, '\0');
  }

  // The block sizes: the weight's sizes divided by the part's.
  Result<Dims> blocks_of(const mlmodel::Value& value) const {
    Dims block;
    const mlmodel::TensorType& stated = value.type().tensortype();
    for (int64_t axis = 0; axis < type_.rank() && axis < stated.dimensions_size(); ++axis) {
      const auto count =
          static_cast<int64_t>(stated.dimensions(static_cast<int>(axis)).constant().size());
      // After a break, the rank differs and the function fails below.
      if (count < 1 || type_.dims.at(axis) % count != 0) break;
      block.push_back(type_.dims.at(axis) / count);
    }
    if (block.rank() == type_.rank()) return block;
    return wrong(operation_, fmt::format("the block sizes do not divide {}", to_string(type_)));
  }

  Result<WeightView> read_blockwise() {
    MOEC_ASSIGN(const mlmodel::Value* codes, require("data"));
    MOEC_ASSIGN(const mlmodel::Value* scales, require("scale"));
    const mlmodel::Value* zeros = find("offset");
    MOEC_ASSIGN(const CodeType* code, code_type(*codes, type_.dims));
    // Codes of affine encodings are signed in the IR.
    if (code->type != mlmodel::INT8 && code->type != mlmodel::INT4)
      return wrong(operation_, "codes must be int8 or int4");
    MOEC_ASSIGN(Dims block, blocks_of(*scales));
    const AffineEncoding affine{code->bits, std::move(block), zeros != nullptr};
    zero_dims_ = block_counts(affine, type_);
    return decode(affine, {codes, scales, zeros});
  }

  Result<WeightView> read_palette() {
    MOEC_ASSIGN(const mlmodel::Value* codes, require("indices"));
    MOEC_ASSIGN(const mlmodel::Value* table, require("lut"));
    MOEC_ASSIGN(const CodeType* code, code_type(*codes, type_.dims));
    // An index into a table cannot be negative.
    if (code->type == mlmodel::INT8 || code->type == mlmodel::INT4)
      return wrong(operation_, "indices must be unsigned");
    MOEC_ASSIGN(Dims block, blocks_of(*table));
    const mlmodel::TensorType& stated = table->type().tensortype();
    const auto size = [&](int64_t axis) {
      return axis < stated.dimensions_size()
                 ? static_cast<int64_t>(stated.dimensions(static_cast<int>(axis)).constant().size())
                 : 0;
    };
    // The table is [groups per axis…, 2^bits, 1]: two axes more than the weight. The last axis is
    // the length of an entry.
    if (stated.rank() != type_.rank() + 2 || size(type_.rank()) != int64_t{1} << code->bits ||
        size(type_.rank() + 1) != 1)
      return wrong(operation_, fmt::format("a table must have {} entries of one value per group",
                                           int64_t{1} << code->bits));
    return decode(PaletteEncoding{code->bits, std::move(block)}, {codes, table, nullptr});
  }

  const Operation& operation_;
  const SourceContext& context_;
  Type type_;       // of the decoded weight
  Dims zero_dims_;  // of the zeros, if there are any
  std::set<std::string, std::less<>> known_;
};

}  // namespace

bool is_coded_weight(const Operation& operation) {
  return operation.type() == kAffineDequantize || operation.type() == kBlockwiseShiftScale ||
         operation.type() == kLutToDense;
}

Result<WeightView> read_coded_weight(const Operation& operation, const SourceContext& context) {
  return CodedWeightReader(operation, context).read();
}

}  // namespace moec
