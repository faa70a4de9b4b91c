// HTTP requests of a gateway to its nodes.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "frontends/jobs/route/route_nodes.h"

namespace moec {

struct NodeReply {
  int status = 0;  // 0: the node did not answer, or its answer broke off
  std::string body, content_type;
};

// Replies of the gateway itself, in the format of the OpenAI API: of any error; 429 if all nodes
// have as many requests as they accept; 503 if no node accepts requests.
NodeReply refusal_reply(int status, const std::string& code, const std::string& cause);
NodeReply busy_reply();
NodeReply no_node_reply();

// Both wait at most `most` for the next bytes of an answer.
NodeReply get_from_node(const RouteNode& node, const std::string& path,
                        std::chrono::milliseconds most);
NodeReply post_to_node(const RouteNode& node, const std::string& path, const std::string& body,
                       std::chrono::milliseconds most);

// Receives an answer piece by piece. `begin` gets the status, then `take` the pieces of a body with
// status 200; either ends the request by returning false. The reply has the body of any other
// status.
struct NodeReceiver {
  std::function<bool(int status)> begin;
  std::function<bool(std::string_view piece)> take;
};
NodeReply stream_from_node(const RouteNode& node, const std::string& path, const std::string& body,
                           std::chrono::milliseconds most, const NodeReceiver& receiver);

}  // namespace moec
