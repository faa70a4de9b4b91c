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

// Returns the sorted names in a folder; empty if the folder cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  // Uses the overloads with an error code, because an exception would hide the first error.
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  // Sorted, because the order of a folder depends on the file system.
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

// Returns the first snapshot with a config.json of a model in the hub cache; empty if there is
// none.
std::string snapshot_in(const fs::path& model) {
  for (const std::string& name : names_in(model / "snapshots"))
    if (std::error_code error; fs::exists(model / "snapshots" / name / "config.json", error))
      return (model / "snapshots" / name).string();
  return {};
}

// The cache contains folders models--OWNER--NAME, possibly inside a folder "hub".
std::optional<Diagnostics> explain_cache(const fs::path& folder) {
  if (const std::string snapshot = snapshot_in(folder); !snapshot.empty())
    return found("hf.hub_cache",
                 "this is a model in the hub cache, which keeps the files in a snapshot",
                 "use " + snapshot, folder);
  for (const fs::path& cache : {folder, folder / "hub"})
    for (const std::string& name : names_in(cache))
      if (const std::string snapshot = snapshot_in(cache / name);
          name.starts_with("models--") && !snapshot.empty())
        return found("hf.hub_cache", "this is the hub cache, which has a folder per model",
                     "use the snapshot of a model, such as " + snapshot, folder);
  return std::nullopt;
}

// Returns true for a GGUF file, or for the first file of a split model. The other files cannot be
// opened on their own.
bool ends_as_part(std::string_view name) {
  return name.ends_with(".gguf") && (name.find("-of-") == std::string_view::npos ||
                                     name.find("-00001-of-") != std::string_view::npos);
}

}  // namespace

Diagnostics explain_no_config(const std::string& path) {
  const bool is_named = fs::path(path).filename() != "config.json";  // the user specified the file
  const fs::path folder = is_named ? fs::path(path) : fs::path(path).parent_path();
  std::error_code error;
  if (is_named || !fs::exists(folder, error))
    return found("hf.no_folder", "there is no such file or folder", "check the path", folder);
  // The more specific explanations come first. A folder of the hub cache has no config of a model.
  if (auto cache = explain_cache(folder)) return *std::move(cache);
  const std::vector<std::string> names = names_in(folder);
  const auto is_adapter = [](const std::string& name) { return name == "adapter_config.json"; };
  if (first_name(names, is_adapter))
    return found("hf.adapter", "the folder contains an adapter, not a complete model",
                 "merge the adapter into its base model and use the result", folder);
  if (const auto gguf = first_name(names, ends_as_part))
    return found("hf.gguf_folder", "the folder contains GGUF files but no config.json",
                 "use the file " + (folder / *gguf).string(), folder);
  return found("hf.no_config", "the folder has no config.json",
               "use the folder of a Hugging Face checkpoint, or a GGUF file", folder);
}

Diagnostics explain_no_weights(const std::string& folder) {
  std::error_code error;
  // Opening a file follows links, so a link without a target looks like a missing file.
  for (const char* name : {kSingleFile, kIndexFile})
    if (const fs::path path = fs::path(folder) / name; fs::is_symlink(fs::symlink_status(path)))
      return found("hf.dangling_link",
                   fmt::format("the link points to {}, which does not exist",
                               fs::read_symlink(path, error).string()),
                   "download the file again, including the blobs of the hub cache", path);
  const std::vector<std::string> names = names_in(folder);
  const auto is_part = [](const std::string& name) {
    return name.ends_with(".safetensors") && name.find("-of-") != std::string::npos;
  };
  if (const auto part = first_name(names, is_part))
    return found("hf.no_index",
                 fmt::format("there are {} weight files, starting with {}, but no {}",
                             std::count_if(names.begin(), names.end(), is_part), *part, kIndexFile),
                 fmt::format("download {}, which lists the tensors of the files", kIndexFile),
                 folder);
  return found("hf.no_weights", fmt::format("there is neither {} nor {}", kSingleFile, kIndexFile),
               "use the folder of a checkpoint with safetensors files (moec does not read "
               "pytorch_model.bin)",
               folder);
}

}  // namespace moec
