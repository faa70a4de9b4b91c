// --family-file and --ignore-key: how a command reads the config of a checkpoint.
#pragma once

#include "frontends/sources/family_options.h"

namespace CLI {
class App;
}

namespace moec {

void add_family_options(CLI::App& command, FamilyOptions& options);

}  // namespace moec
