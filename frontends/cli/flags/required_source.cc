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
  return parent.empty() ? "." : parent;
}

std::string next_of_published(const std::string& name) {
  const auto model = find_published(name);
  return fmt::format("moec plan {} takes it; to export it, download {} and give its folder", name,
                     model ? (*model)->checkpoint : name);
}

std::string next_of_several(const std::string& path) {
  return fmt::format("give one of them: {}", fmt::join(finished_exports_in(path), " or "));
}

// The words for each kind, in the order of the enum; {path} and {folder} stand for the path and the
// folder that it lies in.
struct KindWords {
  const char *what, *next;
};
constexpr auto kWords = enum_table<PathKind>(
    {KindWords{"it is of an unknown kind", ""},
     KindWords{
         "it is a checkpoint",
         "moec export {path} --out OUT compiles it; moec inspect and moec plan take it as it is"},
     KindWords{"it is the config of a checkpoint",
               "moec plan {path} takes it; other commands take the folder of the checkpoint"},
     KindWords{"it is a file of weights, a part of a checkpoint",
               "moec inspect, plan and export take the folder with its config.json: {folder}"},
     KindWords{"it is a GGUF file",
               "moec export {path} --out OUT compiles it; moec inspect and plan take it as it is"},
     KindWords{"it is an exported folder",
               "moec inspect, check, validate and run take it: moec check {path}"},
     KindWords{"the folder holds exports for several targets", ""},
     KindWords{"the export in this folder is not finished",
               "run the moec export command again: it continues there"},
     KindWords{"it is the manifest of an export", "give the exported folder: {folder}"},
     KindWords{"it is a single shard", "moec inspect {path} prints its IR"},
     KindWords{"it is a shard in text form", "moec opt {path} takes it"},
     KindWords{"it is a folder of golden results", "moec validate OUT --golden {path} takes it"},
     KindWords{
         "it is no path, but the name of a published model, of which only the config is known", ""},
     KindWords{"it is a JSON file", "moec plan {path} takes it if it is a config"},
     KindWords{"it is a file", "moec COMMAND --help says what the command takes"}});

std::string next_of(PathKind kind, const std::string& path) {
  if (kind == PathKind::published) return next_of_published(path);
  if (kind == PathKind::several) return next_of_several(path);
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
  // The reader of the manifest says more of a folder of several exports and of an unfinished one.
  return require(path, "an exported folder",
                 {PathKind::exported, PathKind::several, PathKind::unfinished});
}

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
