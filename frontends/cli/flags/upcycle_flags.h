// The flags of `moec upcycle`.
#pragma once

#include <string>

#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct UpcycleFlags {
  UpcycleOptions options;
  std::string layers = "all", init, router, scale, dtype, max_shard;
  bool from_moe = false, unnormalised = false, quiet = false, json = false;
};

void add_upcycle_flags(CLI::App& command, UpcycleFlags& flags);

// Errors: cli.missing (neither --out nor --dry-run; --from-moe without --multiply), cli.value,
// cli.bytes.
Result<UpcycleOptions> upcycle_options(const UpcycleFlags& flags);

}  // namespace moec
