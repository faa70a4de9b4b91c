// The output folder of an export: the names of its files, which of the files in it an export wrote,
// and the removal of those.
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

// The names that an export may choose. manifest.json, manifest.bin and report.json are fixed.
struct OutNames {
  std::string embedding = "embed.bin", rope = "rope.bin";
  std::string stem_prefix;   // in front of each shard's path: "zaya_ane/"; may be empty
  std::string runtime_meta;  // manifest for the runtimes of the ane-book; empty: not written

  // Those of files at the top of the folder.
  std::vector<std::string> top_level() const;
};

// Paths of files, relative to an output folder. A file belongs to a set if its path does, where the
// temporary names of OutputFile and of packages (".part", ".old" behind any component) count as the
// final ones. The journal and the lock file belong to none.
using OutFiles = std::set<std::string>;

// Files that moec wrote, and the digest that each had then; empty: not known.
using OwnFiles = std::map<std::string, std::string, std::less<>>;

// The paths alone.
OutFiles paths_of(const OwnFiles& own);

// Creates the folder, and its parents, unless it exists. Errors: export.out_not_folder,
// export.no_permission, those of write_error.h.
Status create_folder(const std::string& folder);

// Whether the folder or a folder below it has any file or link, apart from what an export writes
// before its journal: the lock file and the journal's temporary file. Error export.no_permission.
Result<bool> holds_files(const std::string& folder);

// What --force may remove of `own`: all of it, or nothing. Reads every file whose digest is known.
// Files that are gone do not count. Error output.changed: a file has other bytes than moec wrote.
Status check_replaceable(const std::string& folder, const OwnFiles& own);

// The files that earlier exports wrote, as their manifest or their journal in the folder lists
// them, the manifests included. The digest of manifest.json is not known: jobs add to it. Whatever
// version of moec wrote it: what counts as a manifest is a text with a "schema_version" and a
// "tool". Reads only; files that are none are passed over.
OwnFiles files_of_exports(const std::string& folder);

// Nothing that is not in `own` stands where one of the files in `writes` goes: no file or link of
// that name or of the name of a folder above it, no folder of that name, and nothing at all in a
// package, a folder with one of the suffixes (".mlpackage"), because packages are replaced as a
// whole. Error export.foreign_file, which names what is in the way.
Status check_none_in_the_way(const std::string& folder, const OutFiles& writes, const OutFiles& own,
                             std::span<const std::string_view> package_suffixes);

// Removes the files in `own`, except the journal and those whose exact paths are in `kept`, and the
// folders that become empty. Leaves all other files. manifest.json is removed first, so that an
// interrupted removal does not leave a folder that looks finished. Error export.no_permission.
Status remove_files(const std::string& folder, const OutFiles& own,
                    const std::set<std::string>& kept);

}  // namespace moec
