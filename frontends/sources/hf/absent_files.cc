#include "frontends/sources/hf/absent_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace moec {
namespace {

namespace fs = std::filesystem;

// The names in a folder, sorted; none if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

template <class Test>
std::optional<std::string> first_name(const std::vector<std::string>& names, Test test) {
  const auto found = std::find_if(names.begin(), names.end(), test);
  return found == names.end() ? std::nullopt : std::optional(*found);
}

Diagnostics found(std::string code, std::string cause, std::string next, const fs::path& folder) {
  return {{Severity::error,
           std::move(code),
           std::move(cause),
           std::move(next),
           {.file = folder.string()}}};
}

// A snapshot of a model in the hub's cache; empty if there is none.
std::string snapshot_in(const fs::path& model) {
  for (const std::string& name : names_in(model / "snapshots"))
    if (std::error_code error; fs::exists(model / "snapshots" / name / "config.json", error))
      return (model / "snapshots" / name).string();
  return {};
}

// The cache has models--OWNER--NAME, maybe in a folder "hub".
std::optional<Diagnostics> explain_cache(const fs::path& folder) {
  if (const std::string snapshot = snapshot_in(folder); !snapshot.empty())
    return found("hf.hub_cache", "this is a model in the hub's cache, its files are in a snapshot",
                 "give " + snapshot, folder);
  for (const fs::path& cache : {folder, folder / "hub"})
    for (const std::string& name : names_in(cache))
      if (const std::string snapshot = snapshot_in(cache / name);
          name.starts_with("models--") && !snapshot.empty())
        return found("hf.hub_cache", "this is the hub's cache, with the models in folders of it",
                     "give the snapshot of one of them: " + snapshot, folder);
  return std::nullopt;
}

bool ends_as_part(std::string_view name) {
  return name.ends_with(".gguf") && (name.find("-of-") == std::string_view::npos ||
                                     name.find("-00001-of-") != std::string_view::npos);
}

}  // namespace

Diagnostics explain_no_config(const std::string& path) {
  const bool is_named = fs::path(path).filename() != "config.json";  // by the user
  const fs::path folder = is_named ? fs::path(path) : fs::path(path).parent_path();
  std::error_code error;
  if (is_named || !fs::exists(folder, error))
    return found("hf.no_folder", "there is no such file or folder", "check the path", folder);
  if (auto cache = explain_cache(folder)) return *std::move(cache);
  const std::vector<std::string> names = names_in(folder);
  const auto is_adapter = [](const std::string& name) { return name == "adapter_config.json"; };
  if (first_name(names, is_adapter))
    return found("hf.adapter", "the folder holds an adapter, which is no model by itself",
                 "merge it into its base model and give that", folder);
  if (const auto gguf = first_name(names, ends_as_part))
    return found("hf.gguf_folder", "the folder holds GGUF files and no config.json",
                 "give the file: " + (folder / *gguf).string(), folder);
  return found("hf.no_config", "the folder has no config.json",
               "give the folder of a Hugging Face checkpoint, or a GGUF file", folder);
}

Diagnostics explain_no_weights(const std::string& folder) {
  std::error_code error;
  for (const char* name : {kSingleFile, kIndexFile})
    if (const fs::path path = fs::path(folder) / name; fs::is_symlink(fs::symlink_status(path)))
      return found("hf.dangling_link",
                   fmt::format("the link leads to {}, which is not there",
                               fs::read_symlink(path, error).string()),
                   "fetch the file again, with the blobs of the hub's cache", path);
  const std::vector<std::string> names = names_in(folder);
  const auto is_part = [](const std::string& name) {
    return name.ends_with(".safetensors") && name.find("-of-") != std::string::npos;
  };
  if (const auto part = first_name(names, is_part))
    return found("hf.no_index",
                 fmt::format("there are {} parts, {} first, and no {}",
                             std::count_if(names.begin(), names.end(), is_part), *part, kIndexFile),
                 fmt::format("fetch {}, which lists the tensors of the parts", kIndexFile), folder);
  return found("hf.no_weights", fmt::format("there is neither {} nor {}", kSingleFile, kIndexFile),
               "give the folder of a checkpoint with safetensors files; pytorch_model.bin is not "
               "read",
               folder);
}

}  // namespace moec
