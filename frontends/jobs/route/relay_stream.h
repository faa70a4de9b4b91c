// Relays the stream of a text from a node to a client. If the node is lost, another one continues
// the text after the tokens that the client has received.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

#include "frontends/jobs/route/event_queue.h"
#include "frontends/jobs/route/node_pool.h"
#include "frontends/jobs/route/route_request.h"
#include "frontends/nodes/node_client.h"

namespace moec {

// Called when a text continues on another node: "node0 was lost after 12 tokens: node1".
using ExplainCallback = std::function<void(const std::string& line)>;

class StreamRelay {
 public:
  // Sends the request to the node of the lease, the first one of the ranking. The others, in order,
  // continue the text. `pool` must outlive the object, and `explain` may be empty. `most` is the
  // maximum time between two pieces of an answer.
  StreamRelay(NodePool& pool, RouteRequest request, NodeRanking ranking, NodeLease lease,
              std::chrono::milliseconds most, ExplainCallback explain);
  // Ends the request to the node.
  ~StreamRelay();
  StreamRelay(const StreamRelay&) = delete;
  StreamRelay& operator=(const StreamRelay&) = delete;

  // Waits until a node begins to answer, or until all have refused. Status 200: the stream has
  // begun. Otherwise, the answer for the client.
  NodeReply begin();
  // Waits a moment for events and passes them to `send`, which returns false if the client has
  // left. send("") only checks that. Returns false at the end of the stream.
  bool next(const std::function<bool(const std::string& events)>& send);

 private:
  enum class End : uint8_t { complete, refused, lost, cancelled };

  void run(NodeLease lease);
  bool try_node(size_t node, const std::string& body);
  End stream_from(size_t node, const std::string& body);
  bool take_event(std::string_view data);
  bool take_event(const nlohmann::ordered_json& event, std::string_view data);
  std::string rewritten(std::string_view data) const;
  void finish(const NodeReply& refusal);

  NodePool& pool_;
  const RouteRequest request_;
  const NodeRanking ranking_;
  const std::chrono::milliseconds most_;
  const ExplainCallback explain_;

  // Used by thread_ only.
  TextSoFar so_far_;
  bool lacks_tokens_ = false;              // a node sent text without token ids
  std::string id_;                         // of the first node's answer
  bool resumed_ = false;                   // this node continues the text of another one
  bool finished_ = false, ended_ = false;  // finish_reason and [DONE] were seen
  bool failed_ = false;                    // the node reported an error
  NodeReply refusal_;                      // the answer if no other node follows

  EventQueue queue_;
  std::thread thread_;  // last member, because it uses all other members
};

}  // namespace moec
