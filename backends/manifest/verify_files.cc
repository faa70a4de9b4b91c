#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <set>

#include "backends/files/digest.h"
#include "backends/manifest/check_parts.h"
#include "backends/manifest/file_names.h"
#include "backends/manifest/manifest_check.h"
#include "ir/base/json.h"

namespace moec {
namespace {

Diagnostic finding(const char* code, std::string cause, const std::string& path,
                   const std::string& shard) {
  return {.code = code,
          .cause = std::move(cause),
          .next_step = "export the model again",
          .place = {.shard = shard, .file = path}};
}

// `on_read` is null if no digests are compared.
void verify_file(const manifest::FileRef& file, const std::string& shard, const std::string& folder,
                 const ReadCallback* on_read, Diagnostics& findings) {
  std::string path = (std::filesystem::path(folder) / file.path).string();
  auto report = [&](const char* code, std::string cause) {
    findings.push_back(finding(code, std::move(cause), path, shard));
  };
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return report("manifest.file_missing", "the file is missing or not a regular file");
  // Compares the size before the digests, because this does not read the file.
  if (info.st_size != file.bytes)
    return report(
        "manifest.size_changed",
        fmt::format("the file has {} bytes, the manifest records {}", info.st_size, file.bytes));
  if (on_read == nullptr) return;
  const Result<FileDigests> found = digest_file(path, !file.sha256.empty(), [&](uint64_t bytes) {
    if (*on_read) (*on_read)(bytes, file.path);
  });
  if (!found) {
    findings.insert(findings.end(), found.error().begin(), found.error().end());
    return;
  }
  if (found->xxh3 != file.digest)
    report("manifest.digest_changed",
           fmt::format("the file has the digest {}, the manifest records {}", found->xxh3,
                       file.digest));
  // Both texts are empty if the manifest has no SHA-256.
  if (found->sha256 != file.sha256)
    report("manifest.digest_changed",
           fmt::format("the file has the SHA-256 {}, the manifest records {}", found->sha256,
                       file.sha256));
}

// An engine adds compiled graphs after the export, so the manifest does not list them.
bool is_compiled_graph(const std::filesystem::path& name) {
  return name.parent_path() == kCompiledFolder && name.extension() == kCompiledSuffix;
}

}  // namespace

Diagnostics verify_files(const Manifest& manifest, const std::string& folder, bool digests,
                         const ReadCallback& on_read) {
  Diagnostics findings;
  manifest::for_each_file(manifest, [&](const manifest::FileRef& file, const std::string& shard) {
    verify_file(file, shard, folder, digests ? &on_read : nullptr, findings);
  });
  return findings;
}

Diagnostics find_extra_files(const Manifest& manifest, const std::string& folder,
                             std::set<std::string> known) {
  namespace fs = std::filesystem;
  constexpr size_t kNamed = 8;
  known.insert({std::string(kManifestJson), std::string(kManifestBin)});
  manifest::for_each_file(manifest, [&](const manifest::FileRef& file, const std::string&) {
    known.insert(fs::path(file.path).lexically_normal().string());
  });
  std::set<std::string> first;
  size_t extra = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(folder).string();
    // A link to a folder counts as a file, because the iterator does not follow it.
    if (fs::is_directory(entry->symlink_status(error)) || known.contains(name) ||
        is_compiled_graph(name))
      continue;
    ++extra;
    first.insert(printable(name));
    // Keeps the smallest names, so that the message does not depend on the order of the folder.
    if (first.size() > kNamed) first.erase(std::prev(first.end()));
  }
  if (extra == 0) return {};
  return {
      {Severity::warning,
       "manifest.extra_files",
       fmt::format("the folder has {} files that are not in the manifest: {}{}", extra,
                   fmt::join(first, ", "),
                   extra > first.size() ? fmt::format(" and {} more", extra - first.size()) : ""),
       "move or delete these files, which runtimes do not read",
       {.file = folder}}};
}

}  // namespace moec
