// A file that appears under its final name only when it is complete: it is made anew under a
// temporary name beside it, synced, then renamed, all in a folder that is reached as folder.h says.
// Its digest is computed meanwhile, and bytes are written while the caller makes the next ones
// (bulk_writer.h).
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

// The temporary name under which a file is written.
std::string temporary_of(const std::string& path);

class OutputFile {
 public:
  // Creates missing folders and reserves `expected_bytes` on disk where the file system can, so
  // that a full disk is found before the first byte. Errors: those of Folder, each naming the path.
  // With `sha256` that digest is computed as well. The observer, if there is one, gets all bytes in
  // order on a thread of its own; sync() returns after its last call.
  using Observer = std::function<void(std::span<const std::byte> bytes)>;
  static Result<OutputFile> create(const OutputPath& path, uint64_t expected_bytes,
                                   bool sha256 = false, Observer observer = nullptr);

  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  // Removes the temporary file unless it was published.
  ~OutputFile();

  // A failure of the disk may be reported by a later call, at the latest by sync().
  Status write(std::span<const std::byte> bytes);
  // Writes zero bytes up to this position.
  Status pad_to(uint64_t position);

  // Waits for all writes, flushes to the device and closes; nothing can be written any more.
  Status sync();
  // The same without the flush, for a file of a folder that is flushed as a whole (sync_tree.h).
  Status close();
  // Removes the file that has the final name so far.
  Status remove_older() const;
  // Renames to the final name. After sync() or close().
  Status publish();

  const std::string& path() const;  // the final path
  uint64_t bytes() const;           // written so far
  std::string digest() const;       // xxh3-128 of the bytes so far, 32 lower-case hex digits
  // After sync() or close(): 64 lower-case hex digits, or empty where it was not asked for.
  const std::string& sha256() const;

 private:
  struct Impl;
  explicit OutputFile(std::unique_ptr<Impl> impl);
  Status finish();
  Status close_file();
  std::unique_ptr<Impl> impl_;
};

// Writes a small file at once: write_synced() leaves it complete and synced under its temporary
// name, write_file() publishes it as well.
Result<OutputFile> write_synced(const OutputPath& path, std::string_view bytes,
                                bool sha256 = false);
Status write_file(const OutputPath& path, std::string_view bytes);

// The same for a file that the user named. A device, a pipe or a link is written to: it stays what
// it is.
Status write_user_file(const std::string& path, std::string_view bytes);

}  // namespace moec
