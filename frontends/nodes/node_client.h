// HTTP requests to the servers of a cluster.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "frontends/nodes/node_servers.h"

namespace moec {

struct NodeReply {
  int status = 0;  // 0: the node did not answer, or its answer broke off
  std::string body, content_type;
};

// Both wait at most `most` for the next bytes of an answer.
NodeReply get_from_node(const NodeServer& node, const std::string& path,
                        std::chrono::milliseconds most);
NodeReply post_to_node(const NodeServer& node, const std::string& path, const std::string& body,
                       std::chrono::milliseconds most);

// A connection that stays open between requests. One thread uses it at a time.
class NodeConnection {
 public:
  NodeConnection(const NodeServer& node, std::chrono::milliseconds most);
  NodeConnection(NodeConnection&&) noexcept;
  ~NodeConnection();
  NodeReply post_bytes(const std::string& path, const std::string& body);

 private:
  struct Client;
  std::unique_ptr<Client> client_;
};

// Receives an answer piece by piece. `begin` gets the status, then `take` the pieces of a body with
// status 200; either ends the request by returning false. The reply has the body of any other
// status.
struct NodeReceiver {
  std::function<bool(int status)> begin;
  std::function<bool(std::string_view piece)> take;
};
NodeReply stream_from_node(const NodeServer& node, const std::string& path, const std::string& body,
                           std::chrono::milliseconds most, const NodeReceiver& receiver);

}  // namespace moec
