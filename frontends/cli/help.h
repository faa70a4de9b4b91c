// The layout of --help: commands by task, options by group, the most used options first.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// Groups the commands of the app and their options according to the tables in help.cc. As a result,
// `--help` of a command shows at most ten options, and `--help-all` shows all options by group.
void arrange_help(CLI::App& app);

}  // namespace moec
