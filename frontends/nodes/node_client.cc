#include "frontends/nodes/node_client.h"

#include <httplib.h>

namespace moec {
namespace {

using std::chrono::milliseconds;

// Nodes are in the same network, so a longer wait means that the node is gone.
constexpr milliseconds kConnect{2000};

httplib::Client client_of(const NodeServer& node, milliseconds most) {
  httplib::Client client(node.url);
  client.set_connection_timeout(kConnect);
  client.set_read_timeout(most);
  client.set_write_timeout(most);
  client.set_tcp_nodelay(true);
  return client;
}

httplib::Headers headers_of(const NodeServer& node) {
  if (node.api_key.empty()) return {};
  return {{"Authorization", "Bearer " + node.api_key}};
}

NodeReply reply_of(const httplib::Result& result) {
  if (!result) return {};
  return {result->status, result->body, result->get_header_value("Content-Type")};
}

}  // namespace

NodeReply get_from_node(const NodeServer& node, const std::string& path, milliseconds most) {
  return reply_of(client_of(node, most).Get(path, headers_of(node)));
}

NodeReply post_to_node(const NodeServer& node, const std::string& path, const std::string& body,
                       milliseconds most) {
  return reply_of(client_of(node, most).Post(path, headers_of(node), body, "application/json"));
}

struct NodeConnection::Client {
  Client(const NodeServer& node, milliseconds most)
      : http(client_of(node, most)), headers(headers_of(node)) {}

  httplib::Client http;
  httplib::Headers headers;
};

NodeConnection::NodeConnection(const NodeServer& node, milliseconds most)
    : client_(std::make_unique<Client>(node, most)) {
  client_->http.set_keep_alive(true);
}
NodeConnection::NodeConnection(NodeConnection&&) noexcept = default;
NodeConnection::~NodeConnection() = default;

NodeReply NodeConnection::post_bytes(const std::string& path, const std::string& body) {
  return reply_of(client_->http.Post(path, client_->headers, body, "application/octet-stream"));
}

NodeReply stream_from_node(const NodeServer& node, const std::string& path, const std::string& body,
                           milliseconds most, const NodeReceiver& receiver) {
  NodeReply reply;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.headers = headers_of(node);
  request.set_header("Content-Type", "application/json");
  request.body = body;
  int status = 0;
  request.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    reply.content_type = response.get_header_value("Content-Type");
    return receiver.begin(status);
  };
  request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    if (status == 200) return receiver.take({data, size});
    reply.body.append(data, size);
    return true;
  };
  httplib::Client client = client_of(node, most);
  if (client.send(request)) reply.status = status;
  return reply;
}

}  // namespace moec
