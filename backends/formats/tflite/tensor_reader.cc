#include "backends/formats/tflite/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/emit/element_bytes.h"
#include "backends/formats/tflite/tflite_types.h"

namespace moec {

const tflite::Tensor& TensorReader::tensor(int32_t index) const {
  return *subgraph_.tensors()->Get(static_cast<uint32_t>(index));
}

tl::unexpected<Diagnostics> TensorReader::fail_tensor(std::string code, std::string cause,
                                                      int32_t index) const {
  return fail(std::move(code), std::move(cause), "export the model again", {.tensor = name(index)});
}

int32_t TensorReader::count() const {
  return subgraph_.tensors() ? static_cast<int32_t>(subgraph_.tensors()->size()) : 0;
}

Status TensorReader::check_index(int32_t tensor) const {
  if (tensor >= 0 && tensor < count()) return {};
  return fail("tflite.undefined",
              fmt::format("tensor {} does not exist, the subgraph has {}", tensor, count()),
              "export the model again");
}

std::string TensorReader::name(int32_t index) const {
  const auto* text = tensor(index).name();
  return text ? text->str() : fmt::format("tensor_{}", index);
}

// Null for buffer 0, and for a buffer that does not exist.
const tflite::Buffer* TensorReader::buffer(int32_t index) const {
  const uint32_t buffer = tensor(index).buffer();
  const auto* buffers = file_.model->buffers();
  return buffer > 0 && buffers && buffer < buffers->size() ? buffers->Get(buffer) : nullptr;
}

Result<Type> TensorReader::type(int32_t index) const {
  const tflite::Tensor& stated = tensor(index);
  const auto dtype = dtype_of(stated.type());
  if (!dtype)
    return fail_tensor(
        "tflite.dtype",
        fmt::format("element type {} is unsupported", static_cast<int>(stated.type())), index);
  // Scales would change the meaning of the elements.
  if (quantization(index))
    return fail_tensor("tflite.quantized", "a quantized tensor of this type is unsupported", index);
  return sized(*dtype, index);
}

const tflite::QuantizationParameters* TensorReader::quantization(int32_t index) const {
  const auto* stated = tensor(index).quantization();
  return stated && (stated->details() || stated->scale()) ? stated : nullptr;
}

tflite::TensorType TensorReader::element_type(int32_t index) const { return tensor(index).type(); }

Result<Type> TensorReader::decoded_type(int32_t index) const { return sized(DType::f32, index); }

// The type with the tensor's sizes.
Result<Type> TensorReader::sized(DType dtype, int32_t index) const {
  const tflite::Tensor& stated = tensor(index);
  if (stated.sparsity() || stated.is_variable())
    return fail_tensor("tflite.quantized", "a sparse or variable tensor is unsupported", index);
  const auto* signature = stated.shape_signature();
  if (signature &&
      std::any_of(signature->begin(), signature->end(), [](int32_t i) { return i < 0; }))
    return fail_tensor("tflite.dynamic_shape", "the tensor has a dynamic size", index);
  Dims dims;
  // The rank is checked first: it bounds the loop over the sizes.
  if (stated.shape() && stated.shape()->size() > kMaxRank)
    return fail_tensor(
        "tflite.shape",
        fmt::format("rank {} is above the limit of {}", stated.shape()->size(), kMaxRank), index);
  if (stated.shape()) dims.assign(stated.shape()->begin(), stated.shape()->end());
  if (dims.empty() && !stated.has_rank() && !is_constant(index))
    return fail_tensor("tflite.dynamic_shape", "the tensor has no shape", index);
  if (!checked_elements(dims))
    return fail_tensor(
        "tflite.shape",
        fmt::format("shape {} has a size below 1, or too many elements", to_string(dims)), index);
  return Type{dtype, std::move(dims)};
}

bool TensorReader::is_constant(int32_t index) const {
  return is_in_file(index) || !inline_bytes(index).empty();
}

// An offset of 0 or 1 means that the buffer has its own data.
bool TensorReader::is_in_file(int32_t index) const {
  const tflite::Buffer* contents = buffer(index);
  return contents && contents->offset() > 1;
}

std::string_view TensorReader::inline_bytes(int32_t index) const {
  const tflite::Buffer* contents = buffer(index);
  if (!contents || !contents->data()) return {};
  return {reinterpret_cast<const char*>(contents->data()->data()), contents->data()->size()};
}

Result<std::vector<double>> TensorReader::values(int32_t index, const Type& type) const {
  const std::string_view bytes = inline_bytes(index);
  if (std::ssize(bytes) != type.bytes())
    return fail_tensor("tflite.buffer",
                       fmt::format("the buffer has {} bytes, expected {} for {}", bytes.size(),
                                   type.bytes(), to_string(type)),
                       index);
  if (type.dtype == DType::i64 && !fit_doubles(bytes))
    return fail_tensor("tflite.buffer", "an integer constant exceeds 2^53", index);
  return element_values(type.dtype, bytes);
}

Result<std::vector<int64_t>> TensorReader::integers(int32_t index) const {
  MOEC_TRY(check_index(index));
  const tflite::Tensor& stated = tensor(index);
  const std::string_view bytes = inline_bytes(index);
  const bool is_vector = !stated.shape() || stated.shape()->size() <= 1;
  // A scalar has one element and no sizes.
  const int64_t count = !stated.shape() || stated.shape()->size() == 0 ? 1 : stated.shape()->Get(0);
  if (stated.type() != tflite::TensorType::INT32 || !is_vector || is_in_file(index) ||
      std::ssize(bytes) != count * dtype_bytes(DType::i32))
    return fail_tensor("tflite.constant_input", "sizes and axes must be i32 constants", index);
  const std::vector<double> values = element_values(DType::i32, bytes);
  return std::vector<int64_t>(values.begin(), values.end());
}

Result<TensorRange> TensorReader::row_scales(int32_t index, const Dims& counts) const {
  const tflite::QuantizationParameters& stated = *quantization(index);
  const auto* scales = stated.scale();
  const auto* zeros = stated.zero_point();
  const Type type{DType::f32, counts};
  // Compared by bytes: the verifier does not check that the elements are aligned.
  const size_t zero_bytes = zeros ? zeros->size() * sizeof(int64_t) : 0;
  const bool has_zeros = zeros && std::any_of(zeros->Data(), zeros->Data() + zero_bytes,
                                              [](uint8_t byte) { return byte != 0; });
  if (!scales || std::ssize(*scales) != type.elements() || stated.quantized_dimension() != 0 ||
      has_zeros)
    return fail_tensor("tflite.quantized", "the codes need one scale per row, and zero points of 0",
                       index);
  const auto* first = reinterpret_cast<const std::byte*>(scales->Data());
  return TensorRange{0, static_cast<uint64_t>(first - file_.start), type};
}

Result<TensorRange> TensorReader::range(int32_t index, const Type& type) const {
  const tflite::Buffer& contents = *buffer(index);
  const auto bytes = static_cast<uint64_t>(type.bytes());
  if (contents.size() != bytes)
    return fail_tensor("tflite.buffer",
                       fmt::format("the buffer has {} bytes, expected {} for {}", contents.size(),
                                   bytes, to_string(type)),
                       index);
  // The first comparison keeps the difference from wrapping around. A sum could overflow.
  if (bytes > file_.bytes || contents.offset() > file_.bytes - bytes)
    return fail_tensor("tflite.buffer",
                       fmt::format("bytes [{}, {} + {}) exceed the file, which has {} bytes",
                                   contents.offset(), contents.offset(), bytes, file_.bytes),
                       index);
  return TensorRange{0, contents.offset(), type};
}

}  // namespace moec
