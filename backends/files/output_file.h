// A file that appears under its final name only when complete: it is created under a temporary name
// next to it, synced, then renamed. Links below the folder are not followed (folder.h). The digest
// is computed during writing, and writes overlap with the caller's work (bulk_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backends/files/folder.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Returns the temporary name of a file during writing.
std::string temporary_of(const std::string& path);

class OutputFile {
 public:
  // Creates missing folders and reserves `expected_bytes` if the file system supports it, so that a
  // full disk is detected before the first write. If `sha256` is true, also computes that digest.
  // `observer`, if set, receives all bytes in order on its own thread; sync() returns after its
  // last call. Errors: those of Folder, with the path.
  using Observer = std::function<void(std::span<const std::byte> bytes)>;
  static Result<OutputFile> create(const OutputPath& path, uint64_t expected_bytes,
                                   bool sha256 = false, Observer observer = nullptr);

  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  // Removes the temporary file unless it was published.
  ~OutputFile();

  // An error of this write may be reported by a later call, at the latest by sync() or close().
  Status write(std::span<const std::byte> bytes);
  // Writes zeros up to this position.
  Status pad_to(uint64_t position);

  // Waits for all writes, flushes to the device and closes the file.
  Status sync();
  // Like sync() without the flush, for files in a folder that is flushed as a whole (sync_tree.h).
  Status close();
  // Removes an older file with the final name.
  Status remove_older() const;
  // Renames to the final name. Call after sync() or close().
  Status publish();

  const std::string& path() const;  // the final path
  uint64_t bytes() const;           // written so far
  std::string digest() const;       // xxh3-128 of the bytes so far, 32 lower-case hex digits
  // 64 lower-case hex digits, or empty unless requested. Call after sync() or close().
  const std::string& sha256() const;

 private:
  struct Impl;
  explicit OutputFile(std::unique_ptr<Impl> impl);
  Status finish();
  Status close_file();
  std::unique_ptr<Impl> impl_;
};

// Write a small file: write_synced() leaves it complete and synced under its temporary name;
// write_file() also publishes it.
Result<OutputFile> write_synced(const OutputPath& path, std::string_view bytes,
                                bool sha256 = false);
Status write_file(const OutputPath& path, std::string_view bytes);

// Like write_file() for a path that the user named. Writes through to a device, pipe or link
// instead of replacing it.
Status write_user_file(const std::string& path, std::string_view bytes);

}  // namespace moec
