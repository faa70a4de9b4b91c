#include "backends/formats/coreml/package.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>

#include "backends/files/digest.h"
#include "backends/files/sync_tree.h"

namespace moec {
namespace {

// A UUID that is made from the path, so that the same export gives the same bytes. coremltools
// draws a random one. Version 8 is the one for UUIDs of one's own making (RFC 9562).
std::string identifier_of(std::string_view path) {
  Digest digest;
  digest.update(std::as_bytes(std::span(path)));
  std::string hex = digest.hex();
  hex[12] = '8';                  // version
  hex[16] = "89ab"[hex[16] % 4];  // variant
  for (size_t position : {20, 16, 12, 8}) hex.insert(position, "-");
  return hex;
}

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

Package::~Package() {
  if (!leaf_.empty()) (void)parent_.remove_all(temporary());
}

OutputPath Package::operator/(const char* path) const {
  return {path_.folder, path_.name + ".part/" + path};
}

// rename() does not replace a folder that is not empty, so the older package is moved aside first
// and moved back if the new one cannot take its place.
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
  MOEC_TRY(sync_tree(parent_.path_of(temporary())));
  MOEC_TRY(replace());
  leaf_.clear();
  return sync_folder(parent_.path());
}

}  // namespace moec
