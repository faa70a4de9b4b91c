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

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

Status copy_bytes(const RegularFile& from, OutputFile& to) {
  for (uint64_t at = 0; at < from.size(); at += kChunkBytes) {
    MOEC_ASSIGN(const std::string chunk, from.read(at, std::min(kChunkBytes, from.size() - at)));
    MOEC_TRY(to.write(std::as_bytes(std::span(chunk))));
  }
  return from.check_unchanged();
}

// Whether `file`, a path without links, lies in the folder `source` or in its store of blobs.
bool belongs_to(const fs::path& file, const fs::path& source) {
  const fs::path inside = file.lexically_relative(source);
  if (!inside.empty() && *inside.begin() != "..") return true;
  const fs::path store = file.parent_path();
  if (store.filename() != "blobs") return false;
  const fs::path model = store.parent_path();
  const fs::path below = source.lexically_relative(model);
  return source.parent_path() == model || (!below.empty() && *below.begin() == "snapshots");
}

// The file that a name in the folder stands for.
Result<RegularFile> open_carried(const fs::path& source, const std::string& name) {
  const std::string path = (source / name).string();
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error)
    return fail("file.open", fmt::format("cannot open the file: {}", error.message()),
                "download it again, or remove the link", {.file = path});
  if (!belongs_to(file, fs::canonical(source, error)))
    return fail("export.carried_link",
                fmt::format("the file would be copied into the export, but it is a link to {}, out "
                            "of the checkpoint's folder",
                            file.string()),
                "put the file itself there if it belongs to the model, or remove the link",
                {.file = path});
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
  if (!names.empty()) return names;
  for (const char* name : kCarriedFiles) {
    std::error_code error;
    // symlink_status(), so that a dangling link of an incomplete download is an error and not
    // passed over as a missing file.
    if (fs::exists(fs::symlink_status(fs::path(source.folder) / name, error)))
      names.emplace_back(name);
  }
  return names;
}

Status check_carried_files(const CarriedSource& source) {
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
