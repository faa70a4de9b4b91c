// The flags of `moec run` and `moec serve` that keep experts in slots.
#pragma once

#include <optional>
#include <string>

#include "backends/runtime/expert_store.h"
#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct ExpertFlags {
  std::string memory;    // empty: none given
  int64_t capacity = 0;  // 0: not given
  std::string policy, on_miss, reads, profile;
};

void add_expert_flags(CLI::App& command, ExpertFlags& flags);

// Nothing without --capacity and --expert-memory. Errors: run.flags (flags that do not go
// together), cli.bytes, those of read_expert_profile().
Result<std::optional<ExpertStoreOptions>> expert_store_options(const ExpertFlags& flags);

}  // namespace moec
