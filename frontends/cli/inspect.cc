// moec inspect: describes a checkpoint, an exported folder or a shard file.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_inspect.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/inspect/inspect_json.h"
#include "frontends/jobs/inspect/inspect_source.h"
#include "ir/text/text.h"

namespace moec {
namespace {

struct InspectFlags {
  InspectOptions options;
  std::string family_file;
  bool tensors = false, json = false;
};

// Prints what was found, in the form that is asked for.
struct Describe {
  const InspectFlags& flags;

  int operator()(const Checkpoint& checkpoint) const {
    flags.json ? print_json(checkpoint_json(checkpoint, flags.tensors))
               : print_checkpoint(checkpoint, flags.tensors);
    return kExitFine;
  }

  int operator()(const Manifest& manifest) const {
    if (!flags.json) {
      print_manifest(manifest);
      return kExitFine;
    }
    const auto json = described_export_json(manifest);
    if (!json) return report_failure(json.error(), true);
    print_json(*json);
    return kExitFine;
  }

  int operator()(const LoadedShard& file) const {
    flags.json ? print_json(shard_json(file.shard)) : print_out("{}", print(file.shard));
    return kExitFine;
  }
};

int run_inspect(const InspectFlags& flags) {
  if (const Status source = require_described(flags.options.source); !source)
    return report_failure(source.error(), flags.json);
  InspectOptions options = flags.options;
  if (!flags.family_file.empty()) options.family_file = flags.family_file;
  const auto found = inspect_source(options);
  return found ? std::visit(Describe{flags}, *found) : report_failure(found.error(), flags.json);
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Describe a checkpoint or an exported folder, or print the IR of a shard file");
  auto flags = std::make_shared<InspectFlags>();
  command
      ->add_option("SOURCE", flags->options.source,
                   "Checkpoint folder, exported folder, .onnx file or .mlpackage")
      ->required();
  command->add_option("--family-file", flags->family_file,
                      "Read the config with this family descriptor instead of a built-in one "
                      "(models/families/README.md)");
  command->add_option("--function", flags->options.function,
                      "The function to read, for a .mlpackage that has several");
  command->add_flag("--tensors", flags->tensors,
                    "Also list the checkpoint's tensors with their types");
  command->add_flag("--json", flags->json, "Print the description as JSON");
  command->footer("Example: moec inspect models/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_inspect(*flags); });
}

}  // namespace moec
