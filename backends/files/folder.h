// An open folder to write files in. Links in the folder's own path are followed, because the user
// chose it. Links below it are never followed, so that a link planted by another program cannot
// redirect writes, renames or removals elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"

namespace moec {

// The target of a file: a folder that the user chose, and the path below it.
struct OutputPath {
  std::string folder;
  std::string name;  // "attn/L00.data"
  std::string mark;  // part of the temporary name, to avoid collisions with other processes

  std::string text() const { return folder + "/" + name; }
  // For a file whose whole path the user chose; `mark` identifies the process.
  static OutputPath of_file(const std::string& path);
};

// An entry of a folder. A link is never a folder, whatever its target.
struct FolderEntry {
  std::string name;
  bool is_folder = false;
};

class Folder {
 public:
  // Opens the folder at `path`; create() also creates it and missing parents. Errors, here and
  // below: those of write_error.h; emit.bad_folder if a component of the path is a link or not a
  // folder.
  static Result<Folder> open(const std::string& path);
  static Result<Folder> create(const std::string& path);

  // Like open() and create() for a path below this folder; an empty `name` means this folder.
  // Rejects "." and "..".
  Result<Folder> open_below(std::string_view name) const;
  Result<Folder> create_below(std::string_view name) const;

  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const { return path_ + "/" + std::string(name); }

  // In the functions below, `name` is an entry of this folder, without a slash.

  // Returns all entries, sorted by name.
  Result<std::vector<FolderEntry>> entries() const;
  bool has(const std::string& name) const;

  // Creates a new file, open for writing. Removes an older file of that name first, so that its
  // other hard links keep their contents. Returns the descriptor, which the caller closes.
  Result<int> create_file(const std::string& name) const;
  // Opens a file for reading. Errors: those of RegularFile, also for a link.
  Result<RegularFile> open_file(const std::string& name) const;

  // Removes a file or link, or an empty folder. A missing entry is not an error.
  Status remove_file(const std::string& name) const;
  Status remove_empty_folder(const std::string& name) const;
  // Removes the entry; recursively if it is a folder.
  Status remove_all(const std::string& name) const;
  Status rename(const std::string& from, const std::string& to) const;
  // Creates a hard link in `other` to a file of this folder. Returns false if the file system does
  // not support hard links.
  bool link_file(const std::string& name, const Folder& other, const std::string& as) const;

 private:
  Folder(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Result<Folder> below(std::string_view name, bool create) const;
  Result<Folder> enter(const std::string& name) const;

  std::string path_;
  int descriptor_ = -1;
};

// Creates a hard link `as` to `file` below the same folder; creates missing subfolders. Returns
// false if the file system does not support hard links.
Result<bool> link_files(const OutputPath& file, const OutputPath& as);

// Returns true if the path is relative, not empty, and has no empty, "." or ".." component, so that
// it stays below its base folder.
bool is_below(std::string_view path);

// A path split into its last component and the rest.
struct SplitPath {
  std::string parent, leaf;
};
SplitPath split_path(const std::string& path);

}  // namespace moec
