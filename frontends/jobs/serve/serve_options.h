// Options of `moec serve`.
#pragma once

#include <cstdint>

#include "frontends/http/server_options.h"

namespace moec {

struct SchedulerLimits {
  int64_t sequences = 4;  // concurrent texts, and sequences whose caches are kept
  int64_t waiting = 64;   // queued texts
};

struct ServeOptions {
  ServerOptions server;
  int64_t most_tokens = 0;  // per text; 0: limited by the context only
  SchedulerLimits limits;
};

}  // namespace moec
