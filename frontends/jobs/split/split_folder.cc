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
    if (!is_below(path)) return file.bad("path", "must lead to a place below the folder");
    std::string& digest = files[path];
    return file.has("xxh3") ? file.text("xxh3", digest) : Status();
  });
}

// An index that says no more than which files are to go: an interrupted removal is continued.
Status write_removal(const std::string& folder, const OutFiles& files) {
  std::vector<std::string> paths;
  for (const std::string& file : files)
    if (file != kSplitIndex) paths.push_back(fmt::format(R"({{"path": {}}})", json_string(file)));
  return write_file({folder, kSplitIndex},
                    fmt::format("{{\"finished\": false, \"nodes\": [{{\"files\": [{}]}}]}}\n",
                                fmt::join(paths, ", ")));
}

// A temporary index is what a split leaves that is stopped before it has written anything else.
Status check_unused(const std::string& folder) {
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  MOEC_TRY(opened.remove_file(temporary_of(kSplitIndex)));
  MOEC_ASSIGN(const bool other, holds_files(folder));
  if (!other) return {};
  return not_empty(folder, "the folder holds files that no split wrote",
                   "give --out another folder");
}

}  // namespace

Result<SplitIndex> read_split_index(const std::string& folder) {
  const std::string path = folder + "/" + kSplitIndex;
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxIndexBytes));
  const JsonReport report(
      text, path,
      JsonCodes::by_prefix("split_index", "remove the folder, or give --out another one"));
  MOEC_ASSIGN(const JsonValue value, report.parse({.bytes = kMaxIndexBytes}));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  SplitIndex index{.files = {{kSplitIndex, ""}}};
  MOEC_TRY(fields.boolean("finished", index.finished));
  MOEC_TRY(fields.each("nodes", [&](JsonFields& node) { return read_files(node, index.files); }));
  return index;
}

Status make_room(const std::string& folder, const OutFiles& writes, bool force) {
  if (!file_exists(folder + "/" + kSplitIndex)) return check_unused(folder);
  MOEC_ASSIGN(const SplitIndex earlier, read_split_index(folder));
  if (earlier.finished && !force)
    return not_empty(folder, "the folder holds a finished split",
                     "give --out another folder, or --force to replace it");
  if (earlier.finished) MOEC_TRY(check_replaceable(folder, earlier.files));
  const OutFiles own = paths_of(earlier.files);
  MOEC_TRY(check_none_in_the_way(folder, writes, own, {}));
  MOEC_TRY(write_removal(folder, own));
  return remove_files(folder, own, {kSplitIndex});
}

}  // namespace moec
