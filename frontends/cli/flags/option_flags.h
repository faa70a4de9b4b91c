// The flags of the commands that plan or make exports, built from option rows.
#pragma once

#include "frontends/export/options/option_row.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// Adds one flag per row whose users include those of `users`. `given` must outlive the command.
void add_option_flags(CLI::App& command, OptionUsers users, GivenOptions& given);

}  // namespace moec
