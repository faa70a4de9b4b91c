// The output folder of an export: names of its files, detection of files that exports wrote, and
// their removal.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kReportFile = "report.json";
// Folder of the shares of a divided export: part_folders.h.
inline constexpr const char* kPartsFolder = ".parts";

// The configurable names of an export. manifest.json, manifest.bin and report.json are fixed.
struct OutNames {
  std::string embedding = "embed.bin", rope = "rope.bin";
  std::string stem_prefix;           // prefix of each shard's path: "zaya_ane/"; may be empty
  std::string runtime_meta;          // manifest for the ane-book's runtimes; empty: not written
  std::vector<std::string> decoder;  // files for onnxruntime-genai; empty: not written

  // Names of files at the top of the folder.
  std::vector<std::string> top_level() const;
};

// Paths relative to an output folder. Membership treats the temporary names of OutputFile and of
// packages (".part", ".old" after any component) as the final ones. The journal and the lock file
// are never members.
using OutFiles = std::set<std::string>;

// Files that moec wrote, and their digests at that time; empty: unknown.
using OwnFiles = std::map<std::string, std::string, std::less<>>;

// The paths of `own`.
OutFiles paths_of(const OwnFiles& own);

// Creates the folder and its parents if missing. Errors: export.out_not_folder,
// export.no_permission, those of write_error.h.
Status create_folder(const std::string& folder);

// True if the folder or a subfolder contains a file or link, ignoring kPartsFolder and the files
// that an export writes before its journal: the lock file and the journal's temporary file. Error
// export.no_permission.
Result<bool> holds_files(const std::string& folder);

// Checks that --force may remove all files of `own`. Reads every file with a known digest; ignores
// missing files. Error output.changed: a file differs from what moec wrote.
Status check_replaceable(const std::string& folder, const OwnFiles& own);

// The files of earlier exports, as listed by the manifest or journal in the folder, including the
// manifests. The digest of manifest.json is unknown, because jobs modify it. Accepts manifests of
// any moec version: any text with a "schema_version" and a "tool". Ignores other files. Does not
// write.
OwnFiles files_of_exports(const std::string& folder);

// Checks that the files in `writes` would not replace anything outside of `own`. Conflicts are an
// entry with the same name, and a file or link with the name of a parent folder. A package, which
// is a folder with one of the suffixes (".mlpackage"), is replaced as a whole, so any foreign entry
// in it is a conflict too. Error export.foreign_file, which names the conflicts.
Status check_none_in_the_way(const std::string& folder, const OutFiles& writes, const OutFiles& own,
                             std::span<const std::string_view> package_suffixes);

// Removes the files in `own`, except the journal and exact paths in `kept`, and folders that become
// empty. Removes manifest.json first, so that an interrupted removal does not leave a folder that
// looks finished. Error export.no_permission.
Status remove_files(const std::string& folder, const OutFiles& own,
                    const std::set<std::string>& kept);

}  // namespace moec
