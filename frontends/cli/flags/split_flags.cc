#include "frontends/cli/flags/split_flags.h"

#include <CLI/CLI.hpp>

#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/source_flag.h"

namespace moec {

void add_split_flags(CLI::App& command, SplitFlags& flags) {
  SplitOptions& options = flags.options;
  add_source(command, "MODEL", options.source,
             "A GGUF file, of a model in several files the first; or an exported folder")
      ->required();
  command.add_option("-o,--out", options.out, "Folder for the nodes, each in a folder of its own");
  CLI::Option* place =
      command.add_option("--place,--groups-file", options.place_file,
                         "A file of groups of experts, such as moec place writes: "
                         "{\"groups\": [{\"name\": \"node0\", \"experts\": \"L0:0-7;*:8-15\"}]}");
  CLI::Option* groups =
      command
          .add_option("--groups", options.groups,
                      "So many nodes, each with a run of consecutive experts of every layer, or of "
                      "every group of its router where they can be divided")
          ->check(whole_from(1))
          ->excludes(place);
  command
      .add_option("--expert-list", options.expert_list,
                  "One node with these experts: L0:0-7;L1:1,3,5;*:0-7, where * is all other layers")
      ->excludes(place)
      ->excludes(groups);
  command.add_option("--profile", options.profile,
                     "A profile of moec analyze: where routing weights are not normalised, correct "
                     "those of the experts that are left by their mean share");
  command.add_flag("--allow-uncovered", options.allow_uncovered,
                   "Allow experts that are on no node");
  command.add_flag("--force", options.force, "Replace an earlier split in the folder");
  command.add_flag("--dry-run", options.dry_run,
                   "Print what would be written, to the byte, and write nothing");
  command.add_flag("-q,--quiet", flags.quiet, "Print no progress and no notes");
  command.add_flag("--json", flags.json, "Print the report as JSON");
}

Status check_split_flags(const SplitFlags& flags) {
  if (!flags.options.out.empty() || flags.options.dry_run) return {};
  return fail("cli.missing", "--out is required", "give --out FOLDER, or --dry-run");
}

}  // namespace moec
