#include "backends/manifest/manifest_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/files/output_file.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/written_file.h"
#include "ir/base/name_file.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

std::string join(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

bool contains(const std::string& folder, std::string_view name) {
  std::error_code error;
  return std::filesystem::exists(join(folder, name), error);
}

// Returns the next step for a folder without a manifest, which may have an interrupted export.
std::string next_step_without(const std::string& folder) {
  if (has_journal(folder))
    return "run the same export command again to resume the unfinished export in this folder";
  const std::vector<std::string> exports = exports_in(folder);
  if (exports.empty()) return "give the folder that moec export wrote";
  return fmt::format("give one of the exports in this folder: {}", fmt::join(exports, ", "));
}

Result<std::string> read_file(const std::string& path) {
  Result<std::string> text = read_text_file(path, kMaxManifestBytes);
  if (text) return text;
  for (Diagnostic& error : text.error()) {
    error.code = "manifest.read";
    // Suggests resuming an export only if the manifest is missing.
    error.next_step = file_exists(path)
                          ? "give the folder that moec export wrote"
                          : next_step_without(std::filesystem::path(path).parent_path().string());
  }
  return text;
}

// Removes the first line from `text` and returns it without its indentation.
std::string_view take_line(std::string_view& text) {
  size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

// Returns true if the embedding's file has a SHA-256. Without an embedding, uses the first graph
// file, or the first side file if there are no shards.
bool has_sha256(const Manifest& manifest) {
  if (manifest.has_embedding() || (manifest.shards.empty() && manifest.side_files.empty()))
    return !manifest.embedding.file.sha256.empty();
  const manifest::FileRef& first = manifest.shards.empty()
                                       ? manifest.side_files.front()
                                       : manifest.shards.front().widths.front().file;
  return !first.sha256.empty();
}

// Fails if the two forms differ; reports the first line of their JSON texts that differs.
Status require_equal(const Manifest& json, const Manifest& bin, const std::string& folder) {
  if (json == bin) return {};
  MOEC_ASSIGN(std::string json_text, to_json(json));
  MOEC_ASSIGN(std::string bin_text, to_json(bin));
  // The manifests differ, so the texts have a line that differs.
  std::string_view left = json_text, right = bin_text, left_line, right_line;
  while (left_line == right_line && !(left.empty() && right.empty())) {
    left_line = take_line(left);
    right_line = take_line(right);
  }
  return fail("manifest.disagree",
              fmt::format("manifest.json has `{}`, manifest.bin has `{}`", left_line, right_line),
              "export the model again; do not edit only one of the two files",
              {.file = join(folder, kManifestBin)});
}

}  // namespace

Result<uint64_t> manifest_bytes(Manifest manifest) {
  // Digests have a fixed length, so zeros give the exact size.
  constexpr size_t kDigest = 32, kSha256 = 64;
  manifest.binary.reset();
  MOEC_ASSIGN(const std::string bin, to_bytes(manifest));
  manifest.binary =
      manifest::FileRef{std::string(kManifestBin), std::ssize(bin), std::string(kDigest, '0'),
                        std::string(has_sha256(manifest) ? kSha256 : 0, '0')};
  MOEC_ASSIGN(const std::string json, to_json(manifest));
  return bin.size() + json.size();
}

Status write_manifest(Manifest& manifest, const std::string& folder) {
  // manifest.bin cannot contain its own digest, so it has no `binary` field.
  manifest.binary.reset();
  if (Diagnostics findings = check_manifest(manifest); has_error(findings))
    return fail(std::move(findings));
  const bool sha256 = has_sha256(manifest);
  MOEC_ASSIGN(OutputFile bin, to_bytes(manifest).and_then([&](const std::string& bytes) {
    return write_synced({folder, std::string(kManifestBin)}, bytes, sha256);
  }));
  manifest.binary = manifest::describe_file(std::string(kManifestBin), bin);
  const std::string path = join(folder, kManifestJson);
  MOEC_ASSIGN(const std::string json, naming_file(to_json(manifest), path));
  // manifest.json is published last, because its presence marks a complete export (has_manifest()).
  MOEC_TRY(bin.publish());
  return write_file({folder, std::string(kManifestJson)}, json);
}

bool has_manifest(const std::string& folder) { return contains(folder, kManifestJson); }

bool has_journal(const std::string& folder) { return contains(folder, kJournalFile); }

bool holds_export(const std::string& folder) { return has_journal(folder) || has_manifest(folder); }

std::vector<std::string> exports_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> exports;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (holds_export(entry->path().string())) exports.push_back(entry->path().string());
  // Sorts, because the order of directory entries is unspecified.
  std::sort(exports.begin(), exports.end());
  return exports;
}

Result<Manifest> read_manifest(const std::string& folder) {
  std::string json_path = join(folder, kManifestJson), bin_path = join(folder, kManifestBin);
  MOEC_ASSIGN(std::string json, read_file(json_path));
  MOEC_ASSIGN(Manifest manifest, from_json(json, json_path));
  // symlink_status() makes a dangling link count as present, so that reading it fails.
  if (std::filesystem::exists(std::filesystem::symlink_status(bin_path))) {
    MOEC_ASSIGN(std::string bytes, read_file(bin_path));
    MOEC_ASSIGN(Manifest other, from_bytes(bytes, bin_path));
    // manifest.bin does not describe itself, so the comparison excludes `binary`.
    std::optional<manifest::FileRef> binary = std::exchange(manifest.binary, std::nullopt);
    MOEC_TRY(require_equal(manifest, other, folder));
    manifest.binary = std::move(binary);
  }
  // Adds the path of the manifest, which check_manifest() does not know.
  Diagnostics findings = check_manifest(manifest);
  for (Diagnostic& finding : findings)
    if (finding.place.file.empty()) finding.place.file = json_path;
  if (has_error(findings)) return fail(std::move(findings));
  return manifest;
}

}  // namespace moec
