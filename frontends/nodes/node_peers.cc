#include "frontends/nodes/node_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "frontends/nodes/expert_message.h"
#include "ir/base/json.h"
#include "ir/base/json_fields.h"
#include "ir/base/refusals.h"

namespace moec {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kCallLimit{60'000};  // as the default of `moec route --node-timeout`
constexpr milliseconds kAskLimit{2'000};
constexpr std::chrono::seconds kAskAgain{5};

// The experts in the reply of GET /v1/gates; nullopt if it has none of this model.
std::optional<ExpertSets> experts_in(const NodeReply& reply, const ExpertGrid& grid) {
  if (reply.status != 200) return std::nullopt;
  const JsonReport report(reply.body, "gates", JsonCodes::all_as("peers.gates", ""));
  const auto value = report.parse();
  if (!value) return std::nullopt;
  auto fields = JsonFields::of(report, *value);
  std::string text;
  if (!fields || !fields->text("experts", text)) return std::nullopt;
  auto sets = parse_expert_sets(text, grid, "experts");
  return sets ? std::optional(std::move(*sets)) : std::nullopt;
}

// The cause of a failed call.
std::string failure_of(const NodeServer& node, const NodeReply& reply) {
  if (reply.status == 0) return fmt::format("node {} does not answer", node.name);
  return fmt::format("node {} answers with status {}: {}", node.name, reply.status,
                     printable(reply.body, 300));
}

// The rows of a complete answer; nullopt otherwise.
std::optional<Rows> rows_in(const NodeReply& reply, const ExpertCall& call) {
  if (reply.status != 200) return std::nullopt;
  auto rows = parse_rows(reply.body);
  const bool complete =
      rows && !call.inputs.empty() && rows->count() == call.inputs.begin()->second.count();
  return complete ? std::optional(std::move(*rows)) : std::nullopt;
}

}  // namespace

NodePeers::NodePeers(const std::vector<NodeServer>& nodes) {
  for (const NodeServer& node : nodes)
    peers_.push_back({node, NodeConnection(node, kCallLimit), std::nullopt, {}});
}

void NodePeers::ask_experts(Peer& peer, bool now) {
  if (peer.experts || (!now && steady_clock::now() < peer.ask_at)) return;
  peer.experts = experts_in(get_from_node(peer.server, "/v1/gates", kAskLimit), grid_);
  peer.ask_at = steady_clock::now() + kAskAgain;
}

bool NodePeers::has_lacking(const Peer& peer, int64_t layer) const {
  const auto lacking = lacking_.layers.find(layer);
  if (!peer.experts || lacking == lacking_.layers.end()) return peer.experts.has_value();
  return std::all_of(lacking->second.begin(), lacking->second.end(),
                     [&](int64_t expert) { return peer.experts->has(layer, expert); });
}

tl::unexpected<Diagnostics> NodePeers::no_peer(int64_t layer, const std::string& last) const {
  const bool all_known =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return !!peer.experts; });
  if (last.empty() && all_known)
    return fail("peers.bound",
                fmt::format("no peer has all experts of layer {} that this node lacks", layer),
                "place the experts with more --replicas, or add a server of the whole export to "
                "the file of nodes");
  return fail("peers.lost",
              last.empty() ? fmt::format("no peer with the experts of layer {} answers", layer)
                           : fmt::format("the experts of layer {} are missing: {}", layer, last),
              "start the other nodes, and check their addresses in the file of nodes");
}

Status NodePeers::require(const ExpertSets& lacking, const ExpertGrid& grid) {
  lacking_ = lacking;
  grid_ = grid;
  bool all_known = true;
  for (Peer& peer : peers_) {
    ask_experts(peer, true);
    all_known &= peer.experts.has_value();
  }
  if (!all_known) return {};
  for (const auto& [layer, experts] : lacking_.layers)
    if (std::none_of(peers_.begin(), peers_.end(),
                     [&, at = layer](const Peer& peer) { return has_lacking(peer, at); }))
      return no_peer(layer, "");
  return {};
}

NodeReply NodePeers::post(Peer& peer, const std::string& body) {
  if (!wait_.wait) return peer.connection.post_bytes(kExpertsPath, body);
  NodeReply reply;
  std::atomic<bool> done = false;
  const auto ask = [&] {
    reply = peer.connection.post_bytes(kExpertsPath, body);
    done = true;
    wait_.wake();
  };
  // Declared last, so that its thread ends before the values that it uses.
  ThreadGroup thread;
  if (!thread.start(ask)) ask();
  wait_.wait([&] { return done.load(); });
  thread.join();
  return reply;
}

Result<PeerAnswer> NodePeers::run(const ExpertCall& call) {
  const std::string body = call_text(call);
  std::string last;
  // The second round also asks nodes that did not answer a moment ago, and repeats calls for which
  // a server closed an idle connection.
  for (const bool now : {false, true})
    for (Peer& peer : peers_) {
      ask_experts(peer, now);
      if (!has_lacking(peer, call.layer)) continue;
      const NodeReply reply = post(peer, body);
      if (auto rows = rows_in(reply, call)) return PeerAnswer{std::move(*rows), peer.server.name};
      last = failure_of(peer.server, reply);
      // Its experts may have changed, so they are asked for again.
      peer.experts.reset();
      peer.ask_at = steady_clock::now() + kAskAgain;
    }
  return no_peer(call.layer, last);
}

}  // namespace moec
