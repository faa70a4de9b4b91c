#include "frontends/cli/flags/family_flags.h"

#include <CLI/CLI.hpp>

namespace moec {

void add_family_options(CLI::App& command, FamilyOptions& options) {
  command.add_option("--family-file", options.file,
                     "Read the config with this family descriptor instead of a built-in one "
                     "(models/families/README.md)");
  command
      .add_option("--ignore-key", options.ignored_keys,
                  "Ignore this key of the config, which the family does not know; repeatable")
      ->allow_extra_args(false);
}

}  // namespace moec
