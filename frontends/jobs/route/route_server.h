// A gateway that passes requests to the completion endpoints of the OpenAI API to several servers.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "frontends/http/server_options.h"
#include "frontends/jobs/route/relay_stream.h"
#include "frontends/nodes/node_servers.h"

namespace moec {

struct RouteOptions {
  ServerOptions server;
  NodeServers nodes;
  size_t sessions = 100'000;                 // known sessions
  std::chrono::milliseconds check{2'000};    // between two health checks of a node
  std::chrono::milliseconds probe{10'000};   // maximum time of a probe
  std::chrono::milliseconds answer{60'000};  // maximum time between two pieces of an answer
  ExplainCallback explain;                   // receives the reason of each choice; may be empty
};

// Serves until options.server.stop returns true:
//   POST /v1/completions, /v1/chat/completions   relayed to a node
//   GET /v1/models                               the models of a node
//   GET /health                                  503 if no node accepts requests
//   GET /v1/nodes                                the nodes' state
//   POST /v1/nodes/NAME/drain, …/undrain         new requests avoid the node, or not
//   GET /metrics                                 counters in the text format of Prometheus
//   GET /                                        a page of the nodes' state
// Errors: those of ApiServer::run().
Status route_requests(const RouteOptions& options);

}  // namespace moec
