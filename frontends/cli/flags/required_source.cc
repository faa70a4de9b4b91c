#include "frontends/cli/flags/required_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <initializer_list>

#include "frontends/jobs/inspect/path_kind.h"
#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "models/published/published.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  // A bare file name has no parent path.
  return parent.empty() ? "." : parent;
}

std::string next_of_published(const std::string& name) {
  const auto model = find_published(name);
  return fmt::format("run moec plan {}, or download {} and pass its folder", name,
                     model ? (*model)->checkpoint : name);
}

std::string next_of_several(const std::string& path) {
  return fmt::format("pass one of them: {}", fmt::join(finished_exports_in(path), " or "));
}

// Cause and next step per kind, in the order of the enum. {path} and {folder} are replaced with the
// path and the folder that contains it.
struct KindWords {
  const char *what, *next;
};
constexpr auto kWords = enum_table<PathKind>(
    {KindWords{"its kind is unknown", ""},
     KindWords{
         "it is a checkpoint",
         "compile it with moec export {path} --out OUT, or pass it to moec inspect or moec plan"},
     KindWords{"it is the config of a checkpoint",
               "run moec plan {path}, or pass the folder of the checkpoint"},
     KindWords{"it is a weight file of a checkpoint",
               "pass the folder with its config.json to moec inspect, plan or export: {folder}"},
     KindWords{
         "it is a GGUF file",
         "compile it with moec export {path} --out OUT, or pass it to moec inspect or moec plan"},
     KindWords{"it is an exported folder",
               "use it with moec inspect, check, validate or run: moec check {path}"},
     KindWords{"the folder contains exports for several targets", ""},
     KindWords{"the export in this folder is not finished",
               "run the moec export command again to resume it"},
     KindWords{"it is the manifest of an export", "pass the exported folder: {folder}"},
     KindWords{"it is a single shard", "print its IR with moec inspect {path}"},
     KindWords{"it is a shard in text form", "run moec opt {path}"},
     KindWords{"it is a folder of golden results", "run moec validate OUT --golden {path}"},
     KindWords{
         "it is not a path but the name of a published model, of which only the config is known",
         ""},
     KindWords{"it is a JSON file", "run moec plan {path} if it is a config"},
     KindWords{"it is a file", "run moec COMMAND --help to see what the command accepts"}});

std::string next_of(PathKind kind, const std::string& path) {
  // `published` and `several` need data that the table's placeholders cannot express.
  if (kind == PathKind::published) return next_of_published(path);
  if (kind == PathKind::several) return next_of_several(path);
  // fmt::runtime(), because the format string depends on `kind`.
  return fmt::format(fmt::runtime(at(kWords, kind).next), fmt::arg("path", path),
                     fmt::arg("folder", folder_of(path)));
}

Status require(const std::string& path, std::string_view wanted,
               std::initializer_list<PathKind> taken) {
  const PathKind kind = kind_of_path(path);
  if (kind == PathKind::unknown) return {};
  for (const PathKind one : taken)
    if (kind == one) return {};
  return fail("cli.wrong_source", fmt::format("{}; this must be {}", at(kWords, kind).what, wanted),
              next_of(kind, path), {.file = path});
}

}  // namespace

Status require_export(const std::string& path) {
  // For several exports or an unfinished one, the reader of the manifest reports a more specific
  // error.
  return require(path, "an exported folder",
                 {PathKind::exported, PathKind::several, PathKind::unfinished});
}

// A config is accepted, because moec export --seeded-weights needs nothing else.
Status require_checkpoint(const std::string& path) {
  return require(path, "the folder of a checkpoint or a GGUF file",
                 {PathKind::checkpoint, PathKind::config, PathKind::json, PathKind::gguf});
}

Status require_model(const std::string& path) {
  return require(path, "a checkpoint, a GGUF file, a config.json or the name of a published model",
                 {PathKind::checkpoint, PathKind::config, PathKind::json, PathKind::gguf,
                  PathKind::published});
}

Status require_described(const std::string& path) {
  return require(path, "a checkpoint, a GGUF file, an exported folder or a shard file",
                 {PathKind::checkpoint, PathKind::gguf, PathKind::exported, PathKind::shard,
                  PathKind::json, PathKind::file});
}

Status require_golden(const std::string& path) {
  // A checkpoint folder may contain its golden results. kind_of_path() reports a checkpoint.
  if (holds_golden(path)) return {};
  return require(path, "a folder of golden results", {PathKind::golden});
}

Status require_ir(const std::string& path) {
  return require(path, "a shard in text form", {PathKind::ir, PathKind::file});
}

Status require_family_file(const std::string& path) {
  return require(path, "a family descriptor", {PathKind::json});
}

}  // namespace moec
