// Reads arbitrary bytes as the start of a GGUF file. An accepted header must be consistent, its
// values must be readable, and each weight tensor must have a view with the tensor's sizes. An
// accepted model must have all required tensors with the required sizes.
#include <array>
#include <random>

#include "frontends/sources/gguf/gguf_weights.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "ir/base/invariant.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace {

template <class T>
bool is_read(const moec::GgufValues& values, const std::string& key, const moec::GgufValue& value) {
  const auto one = values.find<T>(key);
  const auto several = values.find_array<T>(key);
  MOEC_CHECK(!one || !several, "{} is both a value and an array", key);
  MOEC_CHECK(!several || several->value().size() == value.count, "entries of {} are lost", key);
  return one || several;
}

template <class... T>
void check_value(const moec::GgufValues& values, const std::string& key,
                 const moec::GgufValue& value) {
  const int types = (int{is_read<T>(values, key, value)} + ...);
  MOEC_CHECK(types == 1, "{} can be read as {} types", key, types);
}

void check_weight(const moec::Gguf& model, const moec::GgufTensor& tensor) {
  const auto range = moec::gguf_range(tensor);
  if (!range) return;
  MOEC_CHECK(
      range->offset == tensor.offset && static_cast<uint64_t>(range->type.bytes()) == tensor.bytes,
      "the range does not match the tensor");
  const auto view = moec::gguf_view(model, tensor);
  if (!view) return;
  const auto type = moec::view_type(*view);
  MOEC_CHECK(type && type->dims == tensor.dims, "the view's sizes differ from the tensor's");
}

moec::Result<std::vector<float>> no_floats(const moec::GgufTensor& tensor) {
  return std::vector<float>(static_cast<size_t>(tensor.bytes / sizeof(float)), 1.0F);
}

void check_model(const moec::Gguf& model) {
  const auto checkpoint = moec::gguf_checkpoint(model, no_floats);
  if (!checkpoint) return;
  for (const moec::NeededTensor& needed : moec::needed_tensors(checkpoint->config)) {
    const moec::WeightView view =
        moec::stored_view(checkpoint->weights, checkpoint->config.stored, needed.name);
    const auto type = moec::view_type(view);
    MOEC_CHECK(type && type->dims == needed.dims, "{} has the wrong sizes", needed.name);
  }
}

void check_tensors(const moec::Gguf& model, const moec::GgufHeader& header) {
  uint64_t end = header.data_start;
  for (const moec::GgufTensor& tensor : header.tensors) {
    MOEC_CHECK(tensor.offset >= end && tensor.offset - end < header.alignment &&
                   (tensor.offset - header.data_start) % header.alignment == 0,
               "tensors are not contiguous");
    end = tensor.offset + tensor.bytes;
    MOEC_CHECK(tensor.bytes == 0 || end <= header.file_bytes, "a tensor exceeds the file");
    check_weight(model, tensor);
  }
}

}  // namespace

// Changes a number in a valid header, so that mutations reach the code that follows header parsing.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = moec::parse_gguf(bytes, size == 0 ? 0 : size + 4096 * data[size - 1], "fuzz");
  std::vector<const moec::GgufValue*> numbers;
  if (header)
    for (const auto& [key, value] : header->values.keys())
      if (!value.is_array && value.type != moec::GgufType::string) numbers.push_back(&value);
  if (numbers.empty() || random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const moec::GgufValue& chosen = *numbers[random() % numbers.size()];
  const size_t width = header->values.bytes(chosen).size();
  constexpr std::array<uint8_t, 6> kBytes = {0x00, 0x01, 0x7F, 0x80, 0xFF, 0x3F};
  for (size_t i = 0; i < width; ++i)
    data[chosen.offset + i] =
        random() % 3 == 0 ? static_cast<uint8_t>(random()) : kBytes[random() % kBytes.size()];
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The last byte adds up to 1 MB of payload, so a header may describe a model of tests/golden.
  const uint64_t file_bytes = size + (size == 0 ? 0 : uint64_t{4096} * data[size - 1]);
  const auto header = moec::parse_gguf(bytes, file_bytes, "fuzz");
  if (!header) return 0;
  for (const auto& [key, value] : header->values.keys())
    check_value<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                std::string_view, uint64_t, int64_t, double>(header->values, key, value);
  const moec::Gguf model{{{"fuzz", header->file_bytes}}, header->values, header->tensors};
  check_tensors(model, *header);
  check_model(model);
  return 0;
}
