#include "frontends/jobs/split/split_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;

tl::unexpected<Diagnostics> not_empty(const std::string& folder, std::string cause,
                                      std::string next) {
  return fail("split.out_not_empty", std::move(cause), std::move(next), {.file = folder});
}

Status read_files(JsonFields& node, OwnFiles& files) {
  return node.each("files", [&](JsonFields& file) -> Status {
    std::string path;
    MOEC_TRY(file.text("path", path));
    // The index is a file that may have been edited: a path such as "../x" must not be removed.
    if (!is_below(path)) return file.bad("path", "must be a path below the folder");
    std::string& digest = files[path];
    // An interrupted split has no digests.
    return file.has("xxh3") ? file.text("xxh3", digest) : Status();
  });
}

// Writes an index that lists only the files to remove, so that the next run can finish an
// interrupted removal.
Status write_removal(const std::string& folder, const OutFiles& files) {
  std::vector<std::string> paths;
  for (const std::string& file : files)
    // read_split_index() adds the index itself.
    if (file != kSplitIndex) paths.push_back(fmt::format(R"({{"path": {}}})", json_string(file)));
  return write_file({folder, kSplitIndex},
                    fmt::format("{{\"finished\": false, \"nodes\": [{{\"files\": [{}]}}]}}\n",
                                fmt::join(paths, ", ")));
}

// Removes a temporary index, which is the only file of a split that was stopped before its first
// node. Fails if other files remain.
Status check_unused(const std::string& folder) {
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  MOEC_TRY(opened.remove_file(temporary_of(kSplitIndex)));
  MOEC_ASSIGN(const bool other, holds_files(folder));
  if (!other) return {};
  return not_empty(folder, "the folder contains files that no split wrote",
                   "pass another folder with --out");
}

}  // namespace

Result<SplitIndex> read_split_index(const std::string& folder) {
  const std::string path = folder + "/" + kSplitIndex;
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxIndexBytes));
  const JsonReport report(
      text, path,
      JsonCodes::by_prefix("split_index", "remove the folder, or pass another one with --out"));
  MOEC_ASSIGN(const JsonValue value, report.parse({.bytes = kMaxIndexBytes}));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  // The index itself belongs to the files of the split.
  SplitIndex index{.files = {{kSplitIndex, ""}}};
  MOEC_TRY(fields.boolean("finished", index.finished));
  MOEC_TRY(fields.each("nodes", [&](JsonFields& node) { return read_files(node, index.files); }));
  return index;
}

Status make_room(const std::string& folder, const OutFiles& writes, bool force) {
  if (!file_exists(folder + "/" + kSplitIndex)) return check_unused(folder);
  MOEC_ASSIGN(const SplitIndex earlier, read_split_index(folder));
  if (earlier.finished && !force)
    return not_empty(folder, "the folder contains a finished split",
                     "pass another folder with --out, or pass --force to replace the split");
  // An unfinished split may contain partial files, so it cannot be checked by digests.
  if (earlier.finished) MOEC_TRY(check_replaceable(folder, earlier.files));
  const OutFiles own = paths_of(earlier.files);
  MOEC_TRY(check_none_in_the_way(folder, writes, own, {}));
  // From here on, the folder is marked as unfinished, so that a killed run can be repeated.
  MOEC_TRY(write_removal(folder, own));
  return remove_files(folder, own, {kSplitIndex});
}

}  // namespace moec
