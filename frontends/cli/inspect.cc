// moec inspect: describes a checkpoint, an exported folder or a shard file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "backends/manifest/manifest_file.h"
#include "backends/weights/equal_tensors.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_inspect.h"
#include "frontends/cli/print/say.h"
#include "frontends/formats/format.h"
#include "frontends/hf/open_source.h"
#include "ir/text/text.h"

namespace moec {
namespace {

struct InspectFlags {
  std::string source, family_file, function;
  bool tensors = false, json = false;
};

int inspect_checkpoint(const InspectFlags& flags) {
  std::optional<std::string> family_file;
  if (!flags.family_file.empty()) family_file = flags.family_file;
  auto checkpoint = open_source(flags.source, family_file, equal_tensors);
  if (!checkpoint) return report_failure(checkpoint.error(), flags.json);
  flags.json ? print_checkpoint_json(*checkpoint, flags.tensors)
             : print_checkpoint(*checkpoint, flags.tensors);
  return kExitFine;
}

int inspect_export(const InspectFlags& flags) {
  auto manifest = read_manifest(flags.source);
  if (!manifest) return report_failure(manifest.error(), flags.json);
  if (!flags.json) {
    print_manifest(*manifest);
    return kExitFine;
  }
  const auto text = to_json(*manifest);
  if (!text) return report_failure(text.error(), true);
  print_manifest_json(*text);
  return kExitFine;
}

int inspect_file(const Format& format, const InspectFlags& flags) {
  auto file = format.read(flags.source, {.function = flags.function});
  if (!file) return report_failure(file.error(), flags.json);
  if (flags.json)
    print_shard_json(file->shard);
  else
    print_out("{}", print(file->shard));
  return kExitFine;
}

Diagnostics no_shard_file(const std::string& path) {
  std::vector<std::string_view> kinds;
  for (const Format& format : all_formats()) kinds.push_back(format.about);
  return fail("inspect.kind", fmt::format("the file is neither {}", fmt::join(kinds, " nor ")),
              "give one of these, or the folder of a checkpoint or an export", {.file = path})
      .value();
}

int run_inspect(const InspectFlags& flags) {
  namespace fs = std::filesystem;
  if (const Status source = require_described(flags.source); !source)
    return report_failure(source.error(), flags.json);
  std::error_code error;
  const bool is_file = fs::is_regular_file(flags.source, error);
  const bool is_absent = !fs::exists(flags.source, error);
  const Format* format = format_of_path(flags.source);
  if (format && (format->graph_is_folder || is_file || is_absent))
    return inspect_file(*format, flags);
  if (is_file) return report_failure(no_shard_file(flags.source), flags.json);
  if (fs::exists(fs::path(flags.source) / kManifestJson, error)) return inspect_export(flags);
  return inspect_checkpoint(flags);
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Describe a checkpoint or an exported folder, or print the IR of a shard file");
  auto flags = std::make_shared<InspectFlags>();
  command
      ->add_option("SOURCE", flags->source,
                   "Checkpoint folder, exported folder, .onnx file or .mlpackage")
      ->required();
  command->add_option("--family-file", flags->family_file,
                      "Read the config with this family descriptor instead of a built-in one "
                      "(models/families/README.md)");
  command->add_option("--function", flags->function,
                      "The function to read, for a .mlpackage that has several");
  command->add_flag("--tensors", flags->tensors,
                    "Also list the checkpoint's tensors with their types");
  command->add_flag("--json", flags->json, "Print the description as JSON");
  command->footer("Example: moec inspect models/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_inspect(*flags); });
}

}  // namespace moec
