#include "frontends/cli/flags/split_flags.h"

#include <CLI/CLI.hpp>

#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/source_flag.h"

namespace moec {

void add_split_flags(CLI::App& command, SplitFlags& flags) {
  SplitOptions& options = flags.options;
  add_source(command, "MODEL", options.source,
             "A GGUF file (the first file of a split model) or an exported folder")
      ->required();
  command.add_option("-o,--out", options.out, "Folder for the nodes, with one subfolder per node");
  CLI::Option* place =
      // Two names for one flag: place files are groups of experts with further members.
      command.add_option("--place,--groups-file", options.place_file,
                         "A file of groups of experts, e.g. from moec place: {\"groups\": "
                         "[{\"name\": \"node0\", \"experts\": \"L0:0-7;*:8-15\"}]}");
  CLI::Option* groups =
      command
          .add_option("--groups", options.groups,
                      "Number of nodes. Each gets consecutive experts of every layer, or of every "
                      "router group if this number divides the size of a group")
          ->check(whole_from(1))
          ->excludes(place);
  command
      .add_option("--expert-list", options.expert_list,
                  "Write one node with these experts, e.g. L0:0-7;L1:1,3,5;*:0-7, where * means "
                  "all other layers")
      ->excludes(place)
      ->excludes(groups);
  command.add_option(
      "--profile", options.profile,
      "A profile from moec analyze. If the router does not normalise its weights, scale the "
      "outputs of a node's experts by the mean share of routing weight that they keep");
  command.add_option("--update", options.update,
                     "The folder of an earlier split of the export: link its files if they are "
                     "equal, and print what each node gains and loses. The folder stays unchanged");
  command.add_flag("--allow-uncovered", options.allow_uncovered,
                   "Allow experts that are on no node");
  command.add_flag("--force", options.force, "Replace an earlier split in the folder");
  command.add_flag("--dry-run", options.dry_run,
                   "Print the exact bytes of what would be written, and write nothing");
  command.add_flag("-q,--quiet", flags.quiet, "Print no progress and no notes");
  command.add_flag("--json", flags.json, "Print the report as JSON");
}

Status check_split_flags(const SplitFlags& flags) {
  if (!flags.options.out.empty() || flags.options.dry_run) return {};
  return fail("cli.missing", "--out is required", "pass --out FOLDER or --dry-run");
}

}  // namespace moec
