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

// The path of `contexts` in the export's folder; empty where it is outside.
fs::path path_inside(const std::string& folder, const std::string& contexts) {
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
  MOEC_ASSIGN(const FileDigests digests, digest_file(whole, true));
  std::error_code failed;
  const auto bytes = static_cast<int64_t>(fs::file_size(whole, failed));
  return manifest::FileRef{path.generic_string(), bytes, digests.xxh3, digests.sha256};
}

// What the list names, and the list itself.
Result<std::vector<manifest::FileRef>> listed_files(const std::string& folder,
                                                    const fs::path& inside) {
  const std::string list = (fs::path(folder) / inside / kContextList).string();
  MOEC_ASSIGN(const std::vector<Listed> listed, read_list(list));
  std::vector<manifest::FileRef> files;
  MOEC_ASSIGN(files.emplace_back(), describe(folder, inside / kContextList));
  for (const auto& [path, sha256] : listed) {
    MOEC_ASSIGN(files.emplace_back(), describe(folder, inside / path));
    if (files.back().sha256 != sha256)
      return fail(kContextsCode,
                  fmt::format("{} has another SHA-256 than {} says", path, kContextList),
                  kConfirmAgain, {.file = list});
  }
  return files;
}

bool lies_in(const manifest::FileRef& file, const fs::path& inside) {
  return file.path.starts_with(inside.generic_string() + "/");
}

}  // namespace

Status check_context_folder(const std::string& folder, const std::string& contexts) {
  if (path_inside(folder, contexts) != ".") return {};
  return fail(kContextsCode, "the contexts would lie among the files of the export",
              "give --context-binaries a folder of its own, inside the export or elsewhere",
              {.file = contexts});
}

Status list_contexts(const std::string& folder, const std::string& contexts) {
  const fs::path inside = path_inside(folder, contexts);
  if (inside.empty() || !fs::exists(fs::path(contexts) / kContextList)) return {};
  MOEC_ASSIGN(const std::vector<manifest::FileRef> files, listed_files(folder, inside));
  MOEC_ASSIGN(Manifest manifest, read_manifest(folder));
  std::erase_if(manifest.side_files,
                [&](const manifest::FileRef& file) { return lies_in(file, inside); });
  manifest.side_files.insert(manifest.side_files.end(), files.begin(), files.end());
  return write_manifest(manifest, folder);
}

}  // namespace moec
