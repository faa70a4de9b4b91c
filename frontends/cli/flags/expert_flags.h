// The flags of `moec run` and `moec serve` for expert slots.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/residency/cache_choice.h"
#include "backends/runtime/experts/expert_store.h"
#include "frontends/nodes/node_peers.h"
#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct ExpertFlags {
  std::string memory;    // empty: not given
  int64_t capacity = 0;  // 0: not given
  std::string policy, on_miss, reads, profile, state, prepacked;
  std::string peers;      // file of nodes; empty: not given
  int64_t pin_top_k = 0;  // 0: not given
  std::optional<CacheBias> cache_bias;
};

void add_expert_flags(CLI::App& command, ExpertFlags& flags);
// --cache-bias and --keep-top.
void add_cache_bias_flags(CLI::App& command, ExpertFlags& flags);

// Returns the peers of --on-miss peer; null for other values. Errors: run.flags (--peers without
// --on-miss peer, or reverse), those of read_node_servers().
Result<std::shared_ptr<NodePeers>> node_peers(const ExpertFlags& flags);

// Returns the options for the export in `folder`; nullopt without --capacity, --expert-memory and
// --prepacked. Errors: run.flags (flags that contradict or require each other), cli.bytes,
// output.in_source, those of read_expert_profile() and PrepackedFile.
Result<std::optional<ExpertStoreOptions>> expert_store_options(const ExpertFlags& flags,
                                                               const std::string& folder);

}  // namespace moec
