#include "backends/formats/onnx/external_data.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <optional>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Diagnostics> fail_external(std::string cause, const onnx::TensorProto& tensor) {
  return fail("onnx.external_data", std::move(cause), "export the model again",
              {.tensor = tensor.name()});
}

// Returns a text of the file in a form for messages: shortened and without control characters.
std::string shown(std::string_view foreign) {
  constexpr size_t kShown = 80;
  std::string text = "\"";
  for (char c : foreign.substr(0, kShown)) text += c >= ' ' && c != 0x7f ? c : '?';
  return text + (foreign.size() > kShown ? "…\"" : "\"");
}

// Views of the tensor's strings. An absent offset means 0, and an absent length means the size of
// the tensor.
struct Entries {
  std::string_view location;
  std::optional<std::string_view> offset, length;
};

Result<Entries> entries_of(const onnx::TensorProto& tensor) {
  Entries entries;
  for (const auto& entry : tensor.external_data()) {
    // Other keys, such as `checksum`, do not affect the position.
    if (entry.key() == "location") entries.location = entry.value();
    if (entry.key() == "offset") entries.offset = entry.value();
    if (entry.key() == "length") entries.length = entry.value();
  }
  // A path could lead out of the folder of an untrusted model. The set contains a zero character,
  // so its length is explicit.
  const bool bare =
      !entries.location.empty() && entries.location != "." && entries.location != ".." &&
      entries.location.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
  if (bare) return entries;
  return fail_external(fmt::format("location {} is not a bare file name", shown(entries.location)),
                       tensor);
}

Result<uint64_t> number(std::optional<std::string_view> text, uint64_t otherwise,
                        const onnx::TensorProto& tensor) {
  if (!text) return otherwise;
  if (const auto value = parse_number<uint64_t>(*text)) return *value;
  return fail_external(fmt::format("{} is not a number of bytes", shown(*text)), tensor);
}

// Returns the index of the file in the table. Adds the file if it is new. Searches linearly,
// because a model has few data files. symlink_status() does not follow links, which could lead out
// of the folder.
Result<uint32_t> file_index(const std::string& path, const onnx::TensorProto& tensor,
                            WeightTable& table) {
  for (uint32_t i = 0; i < table.files.size(); ++i)
    if (table.files[i].path == path) return i;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (error || !fs::is_regular_file(status))
    return fail_external(fmt::format("{} is missing or is not a regular file", shown(path)),
                         tensor);
  const uint64_t bytes = fs::file_size(path, error);
  if (error) return fail_external(fmt::format("cannot read the size of {}", shown(path)), tensor);
  table.files.push_back({path, bytes});
  return static_cast<uint32_t>(table.files.size() - 1);
}

}  // namespace

Status add_external(const onnx::TensorProto& tensor, const Type& type, const std::string& folder,
                    WeightTable& table) {
  MOEC_ASSIGN(const Entries entries, entries_of(tensor));
  const auto bytes = static_cast<uint64_t>(type.bytes());
  MOEC_ASSIGN(const uint64_t offset, number(entries.offset, 0, tensor));
  MOEC_ASSIGN(const uint64_t length, number(entries.length, bytes, tensor));
  if (length != bytes)
    return fail_external(fmt::format("length {} does not match {}", length, to_string(type)),
                         tensor);
  const std::string path = (fs::path(folder) / entries.location).string();
  MOEC_ASSIGN(const uint32_t file, file_index(path, tensor, table));
  const uint64_t available = table.files[file].bytes;
  // The first comparison keeps the difference from wrapping around. A sum could overflow.
  if (length > available || offset > available - length)
    return fail_external(fmt::format("bytes [{}, {} + {}) exceed {}, which has {} bytes", offset,
                                     offset, length, shown(path), available),
                         tensor);
  table.tensors[tensor.name()] = {file, offset, type};
  return {};
}

}  // namespace moec
