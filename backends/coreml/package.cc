#include "backends/coreml/package.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/files/write_error.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

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

// rename() does not replace a folder that is not empty, so the older package is moved aside first
// and moved back if the new one cannot take its place.
std::error_code replace(const std::string& from, const std::string& to) {
  const std::string older = to + ".old";
  std::error_code error, ignored;
  const bool replaces = fs::exists(fs::symlink_status(to, ignored));
  if (replaces) fs::rename(to, older, error);
  if (error) return error;
  fs::rename(from, to, error);
  if (error && replaces) fs::rename(older, to, ignored);
  if (!error) fs::remove_all(older, ignored);
  return error;
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

Result<Package> Package::create(std::string final_path) {
  Package package(std::move(final_path));
  std::error_code error;
  for (const char* leftover : {".part", ".old"}) {
    fs::remove_all(package.final_path_ + leftover, error);
    if (error && error != std::errc::not_a_directory)
      return write_error(error.value(), "remove", package.final_path_ + leftover);
  }
  return package;
}

Package::~Package() {
  std::error_code ignored;
  if (!final_path_.empty()) fs::remove_all(temporary(), ignored);
}

Status Package::publish() {
  MOEC_TRY(sync_tree(temporary()));
  if (const std::error_code error = replace(temporary(), final_path_))
    return write_error(error.value(), "replace", final_path_);
  const std::string folder = fs::path(std::exchange(final_path_, {})).parent_path().string();
  return sync_folder(folder);
}

}  // namespace moec
