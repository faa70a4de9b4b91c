// A folder that is open, as a place for files to be written. The path of the folder itself is the
// user's choice, so links in it are followed; no link below it is, so that nothing is written,
// renamed or removed anywhere else, whatever another program plants there meanwhile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"

namespace moec {

// Where a file goes: a folder that the user chose, and the path below it.
struct OutputPath {
  std::string folder;
  std::string name;  // "attn/L00.data"
  std::string mark;  // in the temporary name, so that it is nobody else's

  std::string text() const { return folder + "/" + name; }
  // For a file whose whole path is the user's choice, with the process as its mark.
  static OutputPath of_file(const std::string& path);
};

// What a folder lists. A link is no folder, wherever it leads.
struct FolderEntry {
  std::string name;
  bool is_folder = false;
};

class Folder {
 public:
  // Opens the folder at `path`; create() makes it, and its parents, where it is missing. Errors,
  // here and below: those of write_error.h; emit.bad_folder where a link, or anything else that is
  // no folder, is in the way.
  static Result<Folder> open(const std::string& path);
  static Result<Folder> create(const std::string& path);

  // The same for a path of folders below this one, or for this one where `name` is empty. "." and
  // ".." are not followed either.
  Result<Folder> open_below(std::string_view name) const;
  Result<Folder> create_below(std::string_view name) const;

  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const { return path_ + "/" + std::string(name); }

  // The names below are of entries of this folder, without a slash.

  // Sorted by name.
  Result<std::vector<FolderEntry>> entries() const;
  bool has(const std::string& name) const;

  // Makes a file that did not exist, open for writing; an older one of that name is removed first,
  // so that no other name of it changes. Returns its descriptor, which the caller closes.
  Result<int> create_file(const std::string& name) const;
  // Opens a file for reading. Errors: those of RegularFile; a link is refused.
  Result<RegularFile> open_file(const std::string& name) const;

  // Removes a file or a link, or an empty folder. What is missing is no error.
  Status remove_file(const std::string& name) const;
  Status remove_empty_folder(const std::string& name) const;
  // Removes whatever has the name, with all that a folder holds.
  Status remove_all(const std::string& name) const;
  Status rename(const std::string& from, const std::string& to) const;
  // Another name, in `other`, of one of this folder's files. False where the file system has none.
  bool link_file(const std::string& name, const Folder& other, const std::string& as) const;

 private:
  Folder(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Result<Folder> below(std::string_view name, bool create) const;
  Result<Folder> enter(const std::string& name) const;

  std::string path_;
  int descriptor_ = -1;
};

// Gives a file a second name in the same folder, whose folders are made where they are missing.
// False where the file system has no such links.
Result<bool> link_files(const OutputPath& file, const OutputPath& as);

// Whether a path leads to a place below the folder that it starts from: it is relative and has no
// "." or ".." in it.
bool is_below(std::string_view path);

// The last component of a path, and what is before it.
struct SplitPath {
  std::string parent, leaf;
};
SplitPath split_path(const std::string& path);

}  // namespace moec
