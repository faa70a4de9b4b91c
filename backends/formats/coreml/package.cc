#include "backends/formats/coreml/package.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "backends/files/digest.h"
#include "backends/files/sync_tree.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {

namespace {

// Derives a UUID from the path, because random ones, as in coremltools, would make exports
// nondeterministic. Version 8 is reserved for custom UUIDs (RFC 9562).
std::string identifier_of(std::string_view path) {
  Digest digest;
  digest.update(std::as_bytes(std::span(path)));
  std::string hex = digest.hex();
  hex[12] = '8';                  // version
  hex[16] = "89ab"[hex[16] % 4];  // variant
  for (size_t position : {20, 16, 12, 8}) hex.insert(position, "-");
  return hex;
}

// Uses the fields and their order of coremltools.
std::string item(std::string_view identifier, std::string_view path, std::string_view name,
                 std::string_view description) {
  return fmt::format(
      "        \"{}\": {{\n"
      "            \"author\": \"com.apple.CoreML\",\n"
      "            \"description\": \"{}\",\n"
      "            \"name\": \"{}\",\n"
      "            \"path\": \"{}\"\n"
      "        }}",
      identifier, description, name, path);
}

}  // namespace

std::string package_manifest(bool has_weights) {
  constexpr std::string_view model = "com.apple.CoreML/model.mlmodel";
  constexpr std::string_view weights = "com.apple.CoreML/weights";
  const std::string root = identifier_of(model);
  // A sorted map makes the order of the items deterministic.
  std::map<std::string, std::string> items;
  items[root] = item(root, model, "model.mlmodel", "CoreML Model Specification");
  if (has_weights) {
    const std::string identifier = identifier_of(weights);
    items[identifier] = item(identifier, weights, "weights", "CoreML Model Weights");
  }
  std::string entries;
  for (const auto& [identifier, text] : items) entries += (entries.empty() ? "" : ",\n") + text;
  return fmt::format(
      "{{\n"
      "    \"fileFormatVersion\": \"1.0.0\",\n"
      "    \"itemInfoEntries\": {{\n"
      "{}\n"
      "    }},\n"
      "    \"rootModelIdentifier\": \"{}\"\n"
      "}}\n",
      entries, root);
}

Result<Package> Package::create(const OutputPath& path) {
  const SplitPath name = split_path(path.name);
  MOEC_ASSIGN(const Folder root, Folder::create(path.folder));
  MOEC_ASSIGN(Folder parent, root.create_below(name.parent));
  Package package(path, std::move(parent), name.leaf);
  for (const std::string& leftover : {package.temporary(), package.older()})
    MOEC_TRY(package.parent_.remove_all(leftover));
  return package;
}

// A failed removal is ignored: the next export of the package removes the rest.
Package::~Package() {
  if (!leaf_.empty()) (void)parent_.remove_all(temporary());
}

OutputPath Package::operator/(const char* path) const {
  return {path_.folder, path_.name + ".part/" + path};
}

// rename() cannot replace a folder that is not empty. So the older package is moved aside first,
// and moved back if the rename fails.
Status Package::replace() const {
  const bool replaces = parent_.has(leaf_);
  if (replaces) MOEC_TRY(parent_.rename(leaf_, older()));
  if (Status renamed = parent_.rename(temporary(), leaf_); !renamed) {
    if (replaces) (void)parent_.rename(older(), leaf_);
    return renamed;
  }
  (void)parent_.remove_all(older());
  return {};
}

Status Package::publish() {
  // Flushes all files before the rename, so that a package under its final name is complete even
  // after a power failure.
  MOEC_TRY(sync_tree(parent_.path_of(temporary())));
  MOEC_TRY(replace());
  leaf_.clear();
  return sync_folder(parent_.path());
}

namespace {

namespace fs = std::filesystem;

// moec writes at most two items of a few hundred bytes. The limit bounds the memory for an
// untrusted file.
constexpr uint64_t kLargestManifest = 1 << 20;
constexpr std::string_view kModelItem = "com.apple.CoreML/model.mlmodel";
constexpr std::string_view kWeightsItem = "com.apple.CoreML/weights";

tl::unexpected<Diagnostics> wrong_package(std::string cause, const std::string& manifest) {
  return fail("coreml.package", std::move(cause), "export the model again", {.file = manifest});
}

Result<JsonValue> read_manifest(const std::string& path) {
  const auto text = read_text_file(path, kLargestManifest);
  if (!text || text->empty())
    return wrong_package("Manifest.json is missing, empty or larger than 1 MiB", path);
  Result<JsonValue> json = parse_json(*text, {.file = path});
  if (!json) return wrong_package("Manifest.json is not JSON: " + json.error().front().cause, path);
  return json;
}

// Returns null if the member is absent or not a string.
const std::string* text_in(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value ? value->string() : nullptr;
}

Status check_item(const std::string& folder, const JsonValue& item, const std::string& manifest) {
  // Only "path" is used. The other fields are required, because coremltools writes all of them.
  for (std::string_view key : {"path", "name", "author", "description"})
    if (!text_in(item, key))
      return wrong_package(fmt::format("an item of Manifest.json has no string \"{}\"", key),
                           manifest);
  const std::string& path = *text_in(item, "path");
  if (path != kModelItem && path != kWeightsItem)
    return wrong_package("an item is neither the model nor its weights: " + printable(path),
                         manifest);
  std::error_code error;
  const fs::path place = fs::path(folder) / "Data" / path;
  const bool there =
      path == kModelItem ? fs::is_regular_file(place, error) : fs::is_directory(place, error);
  return there ? Status() : wrong_package(fmt::format("{} is not in the package", path), manifest);
}

Status check_package(const std::string& folder) {
  const std::string path = (fs::path(folder) / "Manifest.json").string();
  MOEC_ASSIGN(const JsonValue manifest, read_manifest(path));
  const std::string* version = text_in(manifest, "fileFormatVersion");
  if (!version || *version != "1.0.0")
    return wrong_package("fileFormatVersion must be \"1.0.0\"", path);
  const JsonValue* items = manifest.find("itemInfoEntries");
  if (!items || !items->object()) return wrong_package("itemInfoEntries must be an object", path);
  for (const JsonMember& item : *items->object()) MOEC_TRY(check_item(folder, item.value, path));
  const std::string* root = text_in(manifest, "rootModelIdentifier");
  const JsonValue* model = root ? items->find(*root) : nullptr;
  if (!model || *text_in(*model, "path") != kModelItem)
    return wrong_package("rootModelIdentifier does not name the model's item", path);
  bool has_weights_item = false;
  for (const JsonMember& item : *items->object())
    has_weights_item |= *text_in(item.value, "path") == kWeightsItem;
  std::error_code error;
  if (!has_weights_item && fs::exists(fs::path(folder) / "Data" / kWeightsItem, error))
    return wrong_package("no item of Manifest.json names the weights in the package", path);
  return {};
}

// Returns the package that contains a model.mlmodel; empty if there is none. If the caller of
// find_model() names a model in a package, the package is checked, too. The comparison covers the
// last three parts of the path, so a loose model.mlmodel has no package.
std::string package_of(const fs::path& model) {
  const fs::path data = model.parent_path().parent_path();
  const bool inside = (data.filename() / model.parent_path().filename() / model.filename()) ==
                      fs::path("Data") / kModelItem;
  return inside ? (data.parent_path().empty() ? "." : data.parent_path().string()) : "";
}

}  // namespace

Result<std::string> find_model(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    MOEC_TRY(check_package(path));
    return (fs::path(path) / "Data" / kModelItem).string();
  }
  if (!fs::is_regular_file(path, error))
    return fail("coreml.open", fmt::format("{} does not exist", path),
                "pass the path of an .mlpackage or its model.mlmodel", {.file = path});
  if (const std::string package = package_of(path); !package.empty())
    MOEC_TRY(check_package(package));
  return path;
}

}  // namespace moec
