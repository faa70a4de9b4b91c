// Serves an exported model over HTTP, with the completion interfaces of the OpenAI API.
#pragma once

#include <functional>
#include <string>

#include "frontends/jobs/serve/scheduler.h"

namespace moec {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8080;               // 0: one that is free
  int64_t most_tokens = 0;       // of a text; 0: as many as the context has
  uint64_t most_body = 4 << 20;  // bytes of a request
  int64_t connections = 64;      // at a time, a thread each; further ones wait
  SchedulerLimits limits;
  // Asked a few times a second; true ends the server. May be empty.
  std::function<bool()> stop;
  // Told once the server answers.
  std::function<void(int port)> listening;
};

// Above this many connections there is no use in more threads.
inline constexpr int64_t kMostConnections = 1024;

// Answers until `stop` is true: GET /health and /v1/models, POST /v1/completions and
// /v1/chat/completions. `name` is the model's. Errors: serve.labels (the model labels tokens),
// serve.address (the port is taken, or the address is not one of this machine).
Status serve_model(Session session, const std::string& name, const ServeOptions& options);

}  // namespace moec
