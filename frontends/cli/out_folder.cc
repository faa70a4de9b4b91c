#include "frontends/cli/out_folder.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <vector>

namespace moec {

namespace fs = std::filesystem;

// Everything that an export writes at the top of its folder. The manifests come first: without them
// what is left of an interrupted removal is no finished export.
static constexpr std::array kOurs = {"manifest.json", "manifest.bin", "report.json", "embed.bin",
                                     "rope.bin",      "attn",         "moe",         "mlp",
                                     "router",        "lm_head"};

static tl::unexpected<Diagnostics> refused(const std::string& folder,
                                           const std::error_code& error) {
  return fail("export.no_permission",
              fmt::format("the output folder cannot be prepared: {}", error.message()),
              "choose a folder that you may write", {.file = folder});
}

static Status remove_export(const std::string& folder, const OutNames& names) {
  std::error_code error;
  std::vector<std::string> ours(kOurs.begin(), kOurs.end());
  const auto more = names.top_level();
  ours.insert(ours.end(), more.begin(), more.end());
  for (const std::string& name : ours) {
    fs::remove_all(fs::path(folder) / name, error);
    if (error) return refused(folder, error);
  }
  return {};
}

std::vector<std::string> OutNames::top_level() const {
  std::vector<std::string> names = {embedding, rope};
  if (!runtime_meta.empty()) names.push_back(runtime_meta);
  if (!stem_prefix.empty()) names.push_back(stem_prefix.substr(0, stem_prefix.find('/')));
  return names;
}

Status prepare_folder(const std::string& folder, const OutNames& names, bool force) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) {
    fs::create_directories(folder, error);
    if (error) return refused(folder, error);
    return {};
  }
  if (status.type() != fs::file_type::directory)
    return fail("export.out_not_folder", "the output path exists and is no folder",
                "choose another --out", {.file = folder});
  const bool empty = fs::is_empty(folder, error);
  if (error) return refused(folder, error);
  if (empty) return {};
  if (!force)
    return fail("export.out_not_empty", "the output folder is not empty",
                "choose another --out, or give --force to replace an earlier export in it",
                {.file = folder});
  return remove_export(folder, names);
}

}  // namespace moec
