// Options of `moec serve`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backends/runtime/session/session.h"
#include "frontends/http/server_options.h"
#include "frontends/nodes/node_peers.h"

namespace moec {

struct SchedulerLimits {
  int64_t sequences = 4;  // concurrent texts, and sequences whose caches are kept
  int64_t waiting = 64;   // queued texts
};

// Changes the served folder while texts run. Both callbacks are called by one thread at a time.
struct ReloadOptions {
  // Opens the current contents of the folder. Empty: the server refuses to reload.
  std::function<Result<Session>()> open;
  // Called when texts run in the new session, whose experts are paged by the store; null: none.
  std::function<void(const std::shared_ptr<const ExpertStore>&)> opened;
};

struct ServeOptions {
  ServerOptions server;
  int64_t most_tokens = 0;  // per text; 0: limited by the context only
  SchedulerLimits limits;
  // Peers of the session; may be null. While the session waits for one, the server runs the calls
  // of other nodes.
  std::shared_ptr<NodePeers> peers;
  ReloadOptions reload;
};

}  // namespace moec
