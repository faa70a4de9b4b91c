#include "backends/output/carried_files.h"

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

Result<manifest::FileRef> carry_file(const fs::path& source, const fs::path& out,
                                     const std::string& name, bool sha256) {
  MOEC_ASSIGN(const RegularFile from, RegularFile::open((source / name).string()));
  MOEC_ASSIGN(OutputFile to, OutputFile::create((out / name).string(), from.size(), sha256));
  MOEC_TRY(copy_bytes(from, to));
  MOEC_TRY(to.sync());
  MOEC_TRY(to.publish());
  return manifest::describe_file(name, to);
}

}  // namespace

bool has_tokenizer(const std::string& folder) {
  constexpr std::array kEncoders = {"tokenizer.json",  "vocab.json",   "vocab.txt",
                                    "tokenizer.model", "spiece.model", "tiktoken.model"};
  return std::any_of(kEncoders.begin(), kEncoders.end(), [&](const char* name) {
    return file_exists((fs::path(folder) / name).string());
  });
}

Result<std::vector<manifest::FileRef>> carry_files(const std::string& source,
                                                   const std::string& out, bool sha256) {
  std::vector<manifest::FileRef> carried;
  for (const char* name : kCarriedFiles) {
    std::error_code error;
    // symlink_status(), so that a dangling link of an incomplete download is an error and not
    // passed over as a missing file.
    if (!fs::exists(fs::symlink_status(fs::path(source) / name, error))) continue;
    MOEC_ASSIGN(carried.emplace_back(), carry_file(source, out, name, sha256));
  }
  return carried;
}

}  // namespace moec
