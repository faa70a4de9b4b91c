#include "frontends/cli/flags/source_flag.h"

#include <CLI/CLI.hpp>

#include "frontends/sources/open_source.h"

namespace moec {

CLI::Option* add_source(CLI::App& command, const std::string& name, std::string& source,
                        const std::string& help) {
  // A transformation and not a later call, so that every use of the argument sees the file.
  return command.add_option(name, source, help)->transform(source_in_folder);
}

}  // namespace moec
