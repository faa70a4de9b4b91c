// The order of --help: commands by task, options by group, the most used ones first.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// Groups the commands of the app and their options by the tables of help.cc. `--help` of a command
// then shows at most ten options, `--help-all` all of them by group.
void arrange_help(CLI::App& app);

}  // namespace moec
