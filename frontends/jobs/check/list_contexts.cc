#include "frontends/jobs/check/list_contexts.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "backends/files/digest.h"
#include "backends/manifest/manifest_file.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kContextsCode = "confirm.contexts";
const char* const kConfirmAgain = "run moec confirm --context-binaries again, with an empty folder";

// Path of `contexts` relative to the export's folder; empty if it is outside.
fs::path path_inside(const std::string& folder, const std::string& contexts) {
  // Resolves links and "..", so that two spellings of a folder compare equal.
  // "." is the export itself, which check_context_folder() rejects.
  const fs::path path =
      fs::weakly_canonical(contexts).lexically_relative(fs::weakly_canonical(folder));
  return path.empty() || *path.begin() == ".." ? fs::path() : path;
}

struct Listed {
  std::string path, sha256;
};

Result<std::vector<Listed>> read_list(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, kContextsCode));
  const JsonReport report(text, path, JsonCodes::all_as(kContextsCode, kConfirmAgain));
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  MOEC_TRY(fields.form("moec-context-binaries", 1));
  std::vector<Listed> listed;
  MOEC_TRY(fields.each("files", [&](JsonFields& file) -> Status {
    MOEC_TRY(file.text("path", listed.emplace_back().path));
    return file.text("sha256", listed.back().sha256);
  }));
  return listed;
}

Result<manifest::FileRef> describe(const std::string& folder, const fs::path& path) {
  const std::string whole = (fs::path(folder) / path).string();
  // Both digests in one pass over the file: xxh3 for the manifest, SHA-256 for the list.
  MOEC_ASSIGN(const FileDigests digests, digest_file(whole, true));
  std::error_code failed;
  const auto bytes = static_cast<int64_t>(fs::file_size(whole, failed));
  return manifest::FileRef{path.generic_string(), bytes, digests.xxh3, digests.sha256};
}

// Returns the listed files and the list itself.
Result<std::vector<manifest::FileRef>> listed_files(const std::string& folder,
                                                    const fs::path& inside) {
  const std::string list = (fs::path(folder) / inside / kContextList).string();
  MOEC_ASSIGN(const std::vector<Listed> listed, read_list(list));
  std::vector<manifest::FileRef> files;
  // The list comes first; it is a file of the export like the others.
  MOEC_ASSIGN(files.emplace_back(), describe(folder, inside / kContextList));
  for (const auto& [path, sha256] : listed) {
    MOEC_ASSIGN(files.emplace_back(), describe(folder, inside / path));
    // The file may have been replaced after the tool wrote the list.
    if (files.back().sha256 != sha256)
      return fail(kContextsCode,
                  fmt::format("the SHA-256 of {} differs from {}", path, kContextList),
                  kConfirmAgain, {.file = list});
  }
  return files;
}

bool lies_in(const manifest::FileRef& file, const fs::path& inside) {
  // The slash prevents a match with a folder whose name only begins with this one.
  return file.path.starts_with(inside.generic_string() + "/");
}

}  // namespace

Status check_context_folder(const std::string& folder, const std::string& contexts) {
  if (path_inside(folder, contexts) != ".") return {};
  return fail(kContextsCode, "the folder of the contexts is the export itself",
              "pass a separate folder with --context-binaries, inside the export or elsewhere",
              {.file = contexts});
}

Status list_contexts(const std::string& folder, const std::string& contexts) {
  const fs::path inside = path_inside(folder, contexts);
  // Contexts outside the export cannot be listed, because paths in a manifest are relative to it.
  if (inside.empty() || !fs::exists(fs::path(contexts) / kContextList)) return {};
  MOEC_ASSIGN(const std::vector<manifest::FileRef> files, listed_files(folder, inside));
  MOEC_ASSIGN(Manifest manifest, read_manifest(folder));
  // Replaces earlier entries, so that repeated runs do not duplicate them.
  std::erase_if(manifest.side_files,
                [&](const manifest::FileRef& file) { return lies_in(file, inside); });
  manifest.side_files.insert(manifest.side_files.end(), files.begin(), files.end());
  return write_manifest(manifest, folder);
}

}  // namespace moec
