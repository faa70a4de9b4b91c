#include "backends/formats/safetensors/safetensors_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ir/base/report_json.h"

namespace moec {
namespace {

// A file name states the file's number with five digits.
constexpr size_t kMaxFiles = 99'999;
// The length prefix has 8 bytes as well, so the payload begins at a multiple of 8.
constexpr size_t kHeaderUnit = 8;

std::string_view format_name(DType dtype) {
  constexpr std::array<std::pair<DType, std::string_view>, 7> kNames = {
      {{DType::f32, "F32"},
       {DType::f16, "F16"},
       {DType::bf16, "BF16"},
       {DType::i64, "I64"},
       {DType::i32, "I32"},
       {DType::u8, "U8"},
       {DType::f8_e4m3, "F8_E4M3"}}};
  for (const auto& [known, name] : kNames)
    if (known == dtype) return name;
  // boolean is the only remaining element type.
  return "BOOL";
}

std::string entry_text(const SafetensorsTensor& tensor, uint64_t begin, uint64_t end) {
  std::string dims;
  for (const int64_t size : tensor.type.dims)
    dims += fmt::format("{}{}", dims.empty() ? "" : ",", size);
  return fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                     json_string(tensor.name), format_name(tensor.type.dtype), dims, begin, end);
}

// The length prefix: the number of header bytes, little-endian.
std::string prefix_of(uint64_t bytes) {
  std::string prefix(kHeaderUnit, '\0');
  for (char& byte : prefix) {
    byte = static_cast<char>(bytes & 0xff);
    bytes >>= 8;
  }
  return prefix;
}

void set_header(SafetensorsPart& part) {
  // transformers refuses a file whose metadata does not state a known "format".
  std::string json = R"({"__metadata__":{"format":"pt"})";
  uint64_t at = 0;
  for (const SafetensorsTensor& tensor : part.tensors) {
    const auto end = at + static_cast<uint64_t>(tensor.type.bytes());
    json += "," + entry_text(tensor, at, end);
    at = end;
  }
  json += '}';
  // The format allows trailing spaces as padding.
  json.resize((json.size() + kHeaderUnit - 1) / kHeaderUnit * kHeaderUnit, ' ');
  part.header = prefix_of(json.size()) + json;
}

uint64_t width_of(const SafetensorsTensor& tensor) {
  return static_cast<uint64_t>(dtype_bytes(tensor.type.dtype));
}

}  // namespace

Result<std::vector<SafetensorsPart>> plan_safetensors(const std::vector<SafetensorsTensor>& tensors,
                                                      uint64_t max_bytes) {
  std::vector<SafetensorsPart> parts(1);
  std::set<std::string_view> names;
  for (const SafetensorsTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      return fail("safetensors.duplicate_tensor", "two tensors have this name", {},
                  {.tensor = tensor.name});
    const auto bytes = static_cast<uint64_t>(tensor.type.bytes());
    if (!parts.back().tensors.empty() && parts.back().payload_bytes + bytes > max_bytes)
      parts.emplace_back();
    parts.back().tensors.push_back(tensor);
    parts.back().payload_bytes += bytes;
  }
  if (parts.size() > kMaxFiles)
    return fail(
        "safetensors.too_many",
        fmt::format("the checkpoint would have {} files, the limit is {}", parts.size(), kMaxFiles),
        "raise the maximum file size");
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].name = parts.size() == 1
                        ? "model.safetensors"
                        : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
    // A stable sort keeps the given order among tensors of equal width.
    std::stable_sort(parts[i].tensors.begin(), parts[i].tensors.end(),
                     [](const auto& a, const auto& b) { return width_of(a) > width_of(b); });
    set_header(parts[i]);
  }
  return parts;
}

std::string safetensors_index_text(const std::vector<SafetensorsPart>& parts) {
  // Sorts by name, as in index files of Hugging Face.
  std::map<std::string_view, std::string_view> file_of;
  uint64_t bytes = 0;
  for (const SafetensorsPart& part : parts) {
    for (const SafetensorsTensor& tensor : part.tensors) file_of[tensor.name] = part.name;
    bytes += part.payload_bytes;
  }
  std::string text = fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n", bytes);
  text += "  \"weight_map\": {";
  const char* before = "\n";
  for (const auto& [tensor, file] : file_of) {
    text += fmt::format("{}    {}: \"{}\"", before, json_string(tensor), file);
    before = ",\n";
  }
  return text + "\n  }\n}\n";
}

}  // namespace moec
