#include "frontends/sources/hf/index.h"

#include <fmt/format.h>

#include <set>

#include "backends/formats/safetensors/safetensors.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr uint64_t kMaxIndexBytes = 200'000'000;
constexpr JsonLimits kIndexLimits{.bytes = kMaxIndexBytes, .depth = 8, .values = 10'000'000};

// Names come from an untrusted file. A path could lead out of the folder of the checkpoint.
bool is_bare_name(std::string_view name) {
  if (name.size() <= kSuffix.size() || name.size() > 255 || name.front() == '.') return false;
  if (name.substr(name.size() - kSuffix.size()) != kSuffix) return false;
  for (char c : name)
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 0x20) return false;
  return true;
}

class IndexReader {
 public:
  IndexReader(std::string_view text, const std::string& file)
      : text_(text), source_{.file = file} {}

  Result<WeightIndex> run() {
    MOEC_ASSIGN(JsonValue root, parse_json(text_, source_, kIndexLimits));
    if (root.object() == nullptr)
      return error("index.not_object", "the index is not an object", root);
    const JsonValue* map = root.find("weight_map");
    if (map == nullptr || map->object() == nullptr)
      return error("index.weight_map", "the index has no object \"weight_map\"", root,
                   "download the index again");
    // An empty map would look like a checkpoint without tensors, and every tensor would be missing.
    if (map->object()->empty()) return error("index.empty", "\"weight_map\" is empty", *map);
    for (const JsonMember& member : *map->object()) MOEC_TRY(add(member));
    return std::move(index_);
  }

 private:
  tl::unexpected<Diagnostics> error(std::string code, std::string cause, const JsonValue& at,
                                    std::string next = {}) const {
    return fail(std::move(code), std::move(cause), std::move(next),
                json_place(text_, source_, at.offset));
  }

  Status add(const JsonMember& member) {
    const std::string* name = member.value.string();
    if (name == nullptr || !is_bare_name(*name))
      return error(
          "index.file_name",
          fmt::format("the file of \"{}\" is {}, but must be a file name that ends in {}",
                      printable(member.key, 80), to_string(member.value, 80), kSuffix),
          member.value,
          "list weight files by name, without a path, and keep them in the folder of the index");
    // The parser has refused duplicate keys, so every name is new.
    index_.file_of.emplace(member.key, *name);
    return {};
  }

  std::string_view text_;
  JsonSource source_;
  WeightIndex index_;
};

void add_tensor(FolderWeights& weights, const SafetensorsEntry& entry, uint32_t file) {
  if (std::optional<Type> type = ir_type(entry)) {
    weights.table.tensors[entry.name] = {file, entry.begin, *type};
    return;
  }
  if (entry.dtype == "I8") {
    SafetensorsEntry bytes = entry;
    bytes.dtype = "U8";
    if (std::optional<Type> type = ir_type(bytes))
      weights.signed_bytes[entry.name] = {file, entry.begin, *type};
  }
  // Kept by name, so that a needed tensor of this type is not reported as missing.
  weights.not_representable[entry.name] =
      fmt::format("moec cannot represent {}{}", entry.dtype, to_string(entry.shape));
}

uint32_t add_file(FolderWeights& weights, const std::string& path,
                  const SafetensorsHeader& header) {
  weights.table.files.push_back({path, header.file_bytes, header.identity});
  return static_cast<uint32_t>(weights.table.files.size() - 1);
}

void warn(FolderWeights& weights, std::string code, std::string cause, Place place) {
  weights.warnings.push_back(
      {Severity::warning, std::move(code), std::move(cause), {}, std::move(place)});
}

// Reads the files that an index lists and compares the tensors with the index.
class IndexedFolder {
 public:
  IndexedFolder(const std::string& folder, const WeightIndex& index)
      : folder_(folder), index_(index) {}

  Result<FolderWeights> run() {
    // Sorted and unique: every file is read once, and the numbers of files do not depend on the
    // order of tensors.
    std::set<std::string> names;
    for (const auto& [tensor, file] : index_.file_of) names.insert(file);
    for (const std::string& name : names) MOEC_TRY(read(name));
    warn_of_absent_tensors();
    return std::move(weights_);
  }

 private:
  std::string path(std::string_view name) const { return fmt::format("{}/{}", folder_, name); }

  Status read(const std::string& name) {
    if (!file_exists(path(name)))
      return fail("index.absent_file",
                  fmt::format("the index names \"{}\", which is missing", name),
                  "download this file", {.file = path(name)});
    MOEC_ASSIGN(SafetensorsHeader header, read_safetensors(path(name)));
    uint32_t file = add_file(weights_, path(name), header);
    for (const SafetensorsEntry& entry : header.tensors) take(entry, name, file);
    return {};
  }

  void take(const SafetensorsEntry& entry, const std::string& name, uint32_t file) {
    auto listed = index_.file_of.find(entry.name);
    Place place{.tensor = printable(entry.name), .file = path(name)};
    if (listed == index_.file_of.end()) {
      warn(weights_, "index.not_listed", "the index does not name this tensor, so it is omitted",
           std::move(place));
    } else if (listed->second != name) {
      warn(weights_, "index.twice",
           fmt::format("the index names \"{}\" for this tensor, so this copy is omitted",
                       listed->second),
           std::move(place));
    } else {
      add_tensor(weights_, entry, file);
    }
  }

  // This is only a warning, because check_tensors() reports missing tensors that the model needs.
  void warn_of_absent_tensors() {
    size_t count = 0;
    Place first;
    for (const auto& [tensor, file] : index_.file_of) {
      if (weights_.table.find(tensor) != nullptr || weights_.not_representable.contains(tensor))
        continue;
      // Only the first tensor is named. An incomplete file would otherwise give thousands of
      // warnings.
      if (++count == 1) first = {.tensor = printable(tensor), .file = path(file)};
    }
    if (count > 0)
      warn(weights_, "index.absent_tensor",
           fmt::format("the index lists {} tensors that the files lack, starting with this one",
                       count),
           std::move(first));
  }

  const std::string& folder_;
  const WeightIndex& index_;
  FolderWeights weights_;
};

Result<FolderWeights> read_single_file(const std::string& path) {
  MOEC_ASSIGN(SafetensorsHeader header, read_safetensors(path));
  FolderWeights weights;
  uint32_t file = add_file(weights, path, header);
  for (const SafetensorsEntry& entry : header.tensors) add_tensor(weights, entry, file);
  return weights;
}

}  // namespace

Result<WeightIndex> parse_index(std::string_view text, const std::string& file) {
  return IndexReader(text, file).run();
}

Result<FolderWeights> read_folder_weights(const std::string& folder) {
  std::string single = fmt::format("{}/{}", folder, kSingleFile);
  // A single file takes precedence over an index.
  if (file_exists(single)) return read_single_file(single);
  std::string index_path = fmt::format("{}/{}", folder, kIndexFile);
  if (!file_exists(index_path)) return fail(explain_no_weights(folder));
  MOEC_ASSIGN(std::string text, read_text_file(index_path, kMaxIndexBytes));
  MOEC_ASSIGN(WeightIndex index, parse_index(text, index_path));
  return IndexedFolder(folder, index).run();
}

}  // namespace moec
