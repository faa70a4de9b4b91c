// The flags of `moec split`.
#pragma once

#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct SplitFlags {
  SplitOptions options;
  bool quiet = false, json = false;
};

void add_split_flags(CLI::App& command, SplitFlags& flags);

// Error cli.missing: neither --out nor --dry-run is given.
Status check_split_flags(const SplitFlags& flags);

}  // namespace moec
