#include "backends/output/carried_files.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "backends/files/output_file.h"
#include "backends/manifest/written_file.h"
#include "ir/base/regular_file.h"

namespace moec {

namespace fs = std::filesystem;

namespace {

// Bounds the memory of a copy; tokenizers can have tens of megabytes.
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

Status copy_bytes(const RegularFile& from, OutputFile& to) {
  for (uint64_t at = 0; at < from.size(); at += kChunkBytes) {
    MOEC_ASSIGN(const std::string chunk, from.read(at, std::min(kChunkBytes, from.size() - at)));
    MOEC_TRY(to.write(std::as_bytes(std::span(chunk))));
  }
  // The copy is valid only if the source did not change between the first and the last chunk.
  return from.check_unchanged();
}

// True if `file`, a path without links, is in the folder `source` or in its blob store.
bool belongs_to(const fs::path& file, const fs::path& source) {
  // Both paths are canonical, so a lexical comparison suffices.
  const fs::path inside = file.lexically_relative(source);
  if (!inside.empty() && *inside.begin() != "..") return true;
  const fs::path store = file.parent_path();
  // The Hugging Face cache has MODEL/blobs/HASH and MODEL/snapshots/REVISION/NAME, where NAME is
  // usually a link to a blob.
  if (store.filename() != "blobs") return false;
  const fs::path model = store.parent_path();
  const fs::path below = source.lexically_relative(model);
  return source.parent_path() == model || (!below.empty() && *below.begin() == "snapshots");
}

// Opens a file of the folder after checking its link target.
Result<RegularFile> open_carried(const fs::path& source, const std::string& name) {
  const std::string path = (source / name).string();
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error)
    return fail("file.open", fmt::format("cannot open the file: {}", error.message()),
                "download it again, or remove the link", {.file = path});
  if (!belongs_to(file, fs::canonical(source, error)))
    return fail("export.carried_link",
                fmt::format("the file to copy is a link to {}, outside of the checkpoint's "
                            "folder",
                            file.string()),
                "replace the link with the file if it belongs to the model, or remove the link",
                {.file = path});
  // The resolved path has no links. O_NOFOLLOW detects a link that replaced the file after the
  // check; O_NONBLOCK keeps a pipe from blocking open().
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  return RegularFile::adopt(path, ::open(file.c_str(), kFlags));
}

Result<manifest::FileRef> carry_file(const fs::path& source, const std::string& out,
                                     const std::string& name, bool sha256) {
  MOEC_ASSIGN(const RegularFile from, open_carried(source, name));
  MOEC_ASSIGN(OutputFile to, OutputFile::create({out, name}, from.size(), sha256));
  MOEC_TRY(copy_bytes(from, to));
  MOEC_TRY(to.sync());
  MOEC_TRY(to.publish());
  return manifest::describe_file(name, to);
}

Result<manifest::FileRef> write_made(const MadeFile& made, const std::string& out, bool sha256) {
  MOEC_ASSIGN(const std::string text, made.text());
  MOEC_ASSIGN(OutputFile to, OutputFile::create({out, made.name}, text.size(), sha256));
  MOEC_TRY(to.write(std::as_bytes(std::span(text))));
  MOEC_TRY(to.sync());
  MOEC_TRY(to.publish());
  return manifest::describe_file(made.name, to);
}

}  // namespace

bool has_tokenizer(const CarriedSource& source) {
  constexpr std::array kEncoders = {"tokenizer.json",  "vocab.json",   "vocab.txt",
                                    "tokenizer.model", "spiece.model", "tiktoken.model"};
  return !source.made.empty() ||
         std::any_of(kEncoders.begin(), kEncoders.end(), [&](const char* name) {
           return file_exists((fs::path(source.folder) / name).string());
         });
}

std::vector<std::string> carried_names(const CarriedSource& source) {
  std::vector<std::string> names;
  for (const MadeFile& file : source.made) names.push_back(file.name);
  // Generated files replace all files of the folder, so that they never mix with a tokenizer in it.
  if (!names.empty()) return names;
  for (const char* name : kCarriedFiles) {
    std::error_code error;
    // symlink_status() also finds dangling links of incomplete downloads, so that they become
    // errors instead of missing files.
    if (fs::exists(fs::symlink_status(fs::path(source.folder) / name, error)))
      names.emplace_back(name);
  }
  names.insert(names.end(), source.further.begin(), source.further.end());
  return names;
}

Status check_carried_files(const CarriedSource& source) {
  // The text may fail to be generated. So it is generated once before the export and again when the
  // file is written.
  for (const MadeFile& file : source.made) MOEC_TRY(file.text().map([](const std::string&) {}));
  if (!source.made.empty()) return {};
  for (const std::string& name : carried_names(source)) MOEC_TRY(open_carried(source.folder, name));
  return {};
}

Result<std::vector<manifest::FileRef>> carry_files(const CarriedSource& source,
                                                   const std::string& out, bool sha256) {
  std::vector<manifest::FileRef> carried;
  for (const MadeFile& file : source.made) {
    MOEC_ASSIGN(carried.emplace_back(), write_made(file, out, sha256));
  }
  if (!carried.empty()) return carried;
  for (const std::string& name : carried_names(source)) {
    MOEC_ASSIGN(carried.emplace_back(), carry_file(source.folder, out, name, sha256));
  }
  return carried;
}

}  // namespace moec
