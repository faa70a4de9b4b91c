#include "frontends/sources/gguf/gguf.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";

Result<GgufHeader> read_header_of(const std::string& path) {
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  constexpr uint64_t kPointerStart = 64;
  MOEC_ASSIGN(const std::string first, file.read(0, std::min(file.size(), kPointerStart)));
  // A checkout without Git LFS has text files instead of the weights. The parser would only report
  // that the magic is wrong.
  MOEC_TRY(check_no_lfs_pointer(first, path));
  MOEC_ASSIGN(GgufHeader header, read_gguf_header(GgufCursor(file)));
  header.identity = file.identity();
  // The header is read in several steps, so the file could change between them.
  MOEC_TRY(file.check_unchanged());
  return header;
}

// Merges the headers of all files of one model.
class PartsReader {
 public:
  explicit PartsReader(const std::string& path) : path_(path) {}

  Result<Gguf> run() {
    MOEC_ASSIGN(GgufHeader first, read_header_of(path_));
    // Only the first file has the model's keys. They are copied, because add() consumes the header.
    model_.values = first.values;
    MOEC_TRY(add(path_, std::move(first)));
    MOEC_ASSIGN(const auto count, model_.values.find<uint16_t>(kCountKey));
    if (count && *count > 1) MOEC_TRY(read_others(*count));
    return std::move(model_);
  }

 private:
  Status read_others(uint32_t count) {
    // The user can pass any file of the model, but only the first one has all keys.
    MOEC_TRY(check_number(model_.values, path_, 0));
    MOEC_ASSIGN(const std::string prefix, prefix_of(count));
    for (uint32_t part = 1; part < count; ++part)
      MOEC_TRY(read_part(fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, count), part));
    return check_tensor_count(count);
  }

  // "split.no" starts at 0; the numbers in file names start at 1.
  Status check_number(const GgufValues& values, const std::string& path, uint16_t part) const {
    MOEC_ASSIGN(const auto number, values.get<uint16_t>(kNumberKey));
    if (number == part) return {};
    return fail("gguf.split_number",
                fmt::format("\"{}\" is {}, but must be {} at this file's position", kNumberKey,
                            number, part),
                part == 0 ? "pass the first file of the model, …-00001-of-….gguf"
                          : "download all files of the model again, because they do not match",
                {.file = path});
  }

  // Returns the common prefix of all files' paths.
  Result<std::string> prefix_of(uint32_t count) const {
    const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
    if (path_.size() > ending.size() && path_.ends_with(ending))
      return path_.substr(0, path_.size() - ending.size());
    // The other files are found by name, so the name must have the published form.
    return fail("gguf.split_name",
                fmt::format("the name of the first of {} files must end in \"{}\"", count, ending),
                "rename the files to their published names", {.file = path_});
  }

  Status read_part(const std::string& path, uint32_t part) {
    if (!file_exists(path))
      return fail("gguf.split_part", "this file of the model is missing", "download this file",
                  {.file = path});
    MOEC_ASSIGN(GgufHeader header, read_header_of(path));
    MOEC_TRY(check_number(header.values, path, static_cast<uint16_t>(part)));
    return add(path, std::move(header));
  }

  Status add(const std::string& path, GgufHeader header) {
    const auto file = static_cast<uint32_t>(model_.files.size());
    model_.files.push_back({path, header.file_bytes, header.identity});
    for (GgufTensor& tensor : header.tensors) {
      if (!names_.insert(tensor.name).second)
        return fail("gguf.duplicate_tensor", "another file of the model has this tensor as well",
                    "download all files of the model again, because they do not match",
                    {.tensor = printable(tensor.name), .file = path});
      tensor.file = file;
      model_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  Status check_tensor_count(uint32_t count) const {
    // The key counts the tensors of all files, so a file of another version can be detected.
    MOEC_ASSIGN(const auto wanted, model_.values.get<int32_t>(kTensorsKey));
    if (wanted == std::ssize(model_.tensors)) return {};
    return fail("gguf.split_tensors",
                fmt::format("the {} files have {} tensors, but \"{}\" is {}", count,
                            model_.tensors.size(), kTensorsKey, wanted),
                "download all files of the model again, because they do not match",
                {.file = path_});
  }

  const std::string& path_;
  Gguf model_;
  std::unordered_set<std::string> names_;
};

}  // namespace

Result<Gguf> read_gguf(const std::string& path) { return PartsReader(path).run(); }

Result<GgufHeader> parse_gguf(std::string_view start, uint64_t file_bytes,
                              const std::string& file) {
  return read_gguf_header(GgufCursor(std::string(start), file_bytes, file));
}

}  // namespace moec
