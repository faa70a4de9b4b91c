// The flags of the commands that plan or make exports, from the rows of their options.
#pragma once

#include "frontends/export/options/option_row.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// Adds a flag for each row whose users include those of `users`. `given` outlives the command.
void add_option_flags(CLI::App& command, OptionUsers users, GivenOptions& given);

}  // namespace moec
