// Runs the experts that a node lacks on its peers, and the experts of other nodes' calls here.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/file_names.h"
#include "backends/manifest/find_port.h"
#include "backends/manifest/manifest_file.h"
#include "backends/runtime/session/session_impl.h"
#include "ir/base/at.h"
#include "ir/base/json.h"
#include "ir/experts/expert_difference.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> no_whole(const std::string& folder) {
  return fail("session.no_whole",
              "the folder is not a node with the manifest of its whole export, so it has no "
              "experts that peers could compute",
              "split the export again with moec split, or omit --on-miss peer", {.file = folder});
}

// Checks that the node's shards are those of the whole export.
Status check_same(const Manifest& node, const Manifest& whole, const std::string& folder) {
  for (const manifest::Shard& shard : node.shards)
    if (const manifest::Shard* same = whole.find_shard(shard.name); !same || *same != shard)
      return fail("session.no_whole",
                  fmt::format("shard {} differs from that of the whole export", shard.name),
                  "split the export again with moec split", {.file = folder});
  return {};
}

// The step's input edges by port, without the port of the sum.
std::map<std::string, std::string> shared_inputs(const manifest::Step& step) {
  std::map<std::string, std::string> edges;
  for (const InputBinding& input : step.inputs)
    if (input.source == SourceKind::edge && input.port != step.skip_from)
      edges[input.port] = input.edge;
  return edges;
}

const std::string& edge_of(const std::vector<OutputBinding>& outputs, const std::string& port) {
  return std::find_if(outputs.begin(), outputs.end(),
                      [&](const OutputBinding& output) { return output.port == port; })
      ->edge;
}

tl::unexpected<Diagnostics> bad_call(std::string cause) {
  return fail("peers.bad_call", std::move(cause),
              "use nodes of the same split and the same version of moec");
}

// The digests of the graph and of its weight files.
std::string digest_of(const manifest::Shard& shard, size_t graph) {
  std::string digest = shard.widths[graph].file.digest;
  for (const manifest::FileRef& file : shard.data) digest += " " + file.digest;
  return digest;
}

// Checks rows from another machine before they are copied into tensors.
Status check_answer(const PeerAnswer& answer, const manifest::Port& sum, int64_t tokens) {
  const int64_t columns = channels_of(sum.type());
  if (answer.sum.columns == columns && std::ssize(answer.sum.data) == tokens * columns) return {};
  return fail(
      "peers.bad_answer",
      fmt::format("node {} answered with {} values in {} columns, expected {} in {}", answer.host,
                  answer.sum.data.size(), answer.sum.columns, tokens * columns, columns),
      "use the same version of moec on all nodes");
}

// True if each value of the step can be computed from the rows of a call.
bool is_callable(const manifest::Step& step) {
  const auto& inputs = step.inputs;
  return !step.skip_from.empty() &&
         std::all_of(inputs.begin(), inputs.end(), [](const InputBinding& input) {
           return input.source == SourceKind::edge || input.source == SourceKind::token_mask;
         });
}

}  // namespace

// Nodes with equal descriptions compute equal values.
std::string Session::Impl::numerics() const {
  const EngineTraits& traits = engine->traits();
  return fmt::format("{} {} {}", traits.name, options.precision == Precision::f32 ? "f32" : "f16",
                     traits.activations);
}

ExpertSets Session::own_experts() const {
  return in_both(available(), node_experts_of(impl_->manifest).value_or(ExpertSets()));
}

const PeerCounts* Session::peer_counts() const {
  return impl_->options.peers ? &impl_->peers.counts : nullptr;
}

// Replaces the manifest by that of the whole export. Its schedule has the steps of all experts, at
// their places in the order of additions.
Status Session::Impl::open_peers() {
  if (!options.peers) return {};
  const auto refuse = [&](const std::string& what) {
    return fail("session.peers", fmt::format("--on-miss peer cannot be combined with {}", what),
                "omit one of them", {.file = folder});
  };
  if (options.experts) return refuse("expert slots");
  if (options.cache_bias) return refuse("--cache-bias");
  const std::string whole_folder = fmt::format("{}/{}", folder, kWholeFolder);
  if (!manifest.node || !has_manifest(whole_folder)) return no_whole(folder);
  MOEC_ASSIGN(Manifest whole, read_manifest(whole_folder));
  MOEC_TRY(check_same(manifest, whole, folder));
  if (whole.top_k) return refuse("top-k variants");
  for (const manifest::Shard& shard : whole.shards)
    if (!manifest.find_shard(shard.name)) peers.absent.insert(shard.name);
  for (const manifest::Step& step : whole.schedule)
    if (peers.absent.contains(step.shard) && !is_callable(step))
      return fail("session.peers", fmt::format("shard {} cannot run on another node", step.shard),
                  "omit --on-miss peer", {.shard = step.shard});
  MOEC_ASSIGN(const ExpertSets own, node_experts_of(manifest));
  // Experts that the graphs mask may be on no node.
  MOEC_ASSIGN(const ExpertSets choosable, expert_mask_of(whole));
  const ExpertGrid all = expert_grid(whole);
  MOEC_TRY(options.peers->require(in_first_only(choosable, own, all), all));
  whole.node = std::move(manifest.node);
  manifest = std::move(whole);
  return {};
}

// Counts the tokens of a layer, and those that chose an expert that the folder lacks.
void Session::Impl::count_misses(const manifest::Shard& router, const Chunk& chunk,
                                 const Rows& weights) {
  peers.counts.choices += chunk.count;
  for (int64_t t = 0; t < chunk.count; ++t) {
    const auto row = weights.row(t);
    bool missed = false;
    for (int64_t e = 0; e < std::ssize(row) && !missed; ++e)
      missed = row[static_cast<size_t>(e)] != 0 && !peers.own.has(router.layer, e);
    peers.counts.missed += missed ? 1 : 0;
  }
}

// Adds the shard of a step to the call if it follows the call's other shards directly.
bool Session::Impl::extend_call(size_t step, const manifest::Step& first, const Chunk& chunk,
                                ExpertCall& call) const {
  const manifest::Shard& shard = *shards[step];
  if (shard.layer != call.layer || !peers.absent.contains(shard.name) ||
      shared_inputs(manifest.schedule[step]) != shared_inputs(first))
    return false;
  call.shards.push_back({shard.name, digest_of(shard, graph_of(shard, chunk))});
  return true;
}

const manifest::Port& Session::Impl::port_of_sum(size_t step, const Chunk& chunk) const {
  const manifest::Shard& shard = *shards[step];
  return manifest::port_named(shard.widths[graph_of(shard, chunk)].outputs,
                              manifest.schedule[step].skip_to);
}

Status Session::Impl::run_on_peer(size_t step_index, Chunk& chunk) {
  const manifest::Step& first = manifest.schedule[step_index];
  ExpertCall call;
  call.layer = shards[step_index]->layer;
  call.numerics = numerics();
  for (const InputBinding& input : first.inputs)
    if (input.source == SourceKind::edge) call.inputs[input.port] = chunk.edges.at(input.edge);
  extend_call(step_index, first, chunk, call);
  size_t last = step_index;
  for (size_t next = step_index + 1; next < manifest.schedule.size(); ++next) {
    const manifest::Shard& shard = *shards[next];
    if (!is_expert_group(shard.kind) || shard.layer != call.layer) break;
    // Steps without chosen experts only pass the sum on.
    if (is_idle(manifest.schedule[next], shard, chunk)) continue;
    if (!extend_call(next, first, chunk, call)) break;
    last = next;
  }
  const auto begin = std::chrono::steady_clock::now();
  MOEC_ASSIGN(PeerAnswer answer, options.peers->run(call));
  ++peers.counts.calls;
  peers.counts.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const manifest::Step& end = manifest.schedule[last];
  MOEC_TRY(check_answer(answer, port_of_sum(last, chunk), chunk.count));
  chunk.edges[edge_of(end.outputs, end.skip_to)] = std::move(answer.sum);
  std::set<std::string>& hosts = chunk.hosts[call.layer];
  hosts.insert(answer.host);
  peers.counts.most_hosts = std::max(peers.counts.most_hosts, std::ssize(hosts));
  chunk.done_on_peer = last;
  return {};
}

namespace {

// Checks rows from another machine before they are copied into tensors.
Status check_rows(const ExpertCall& call, const manifest::Step& step,
                  const manifest::Width& width) {
  for (const InputBinding& input : step.inputs) {
    if (input.source != SourceKind::edge) continue;
    const auto rows = call.inputs.find(input.port);
    if (rows == call.inputs.end())
      return bad_call(fmt::format("the call has no rows for port {}", input.port));
    const int64_t columns = channels_of(manifest::port_named(width.inputs, input.port).type());
    if (rows->second.columns != columns)
      return bad_call(fmt::format("the rows of port {} have {} columns, expected {}", input.port,
                                  rows->second.columns, columns));
  }
  return {};
}

// Sets the routing weights of all other experts to 0.
void keep_experts(const ExpertSets& experts, int64_t layer, Rows& weights) {
  for (int64_t i = 0; i < std::ssize(weights.data); ++i)
    if (!experts.has(layer, i % weights.columns)) at(weights.data, i) = 0;
}

Result<int64_t> tokens_of(const ExpertCall& call) {
  if (call.inputs.empty() || call.shards.empty()) return bad_call("the call is empty");
  const Rows& first = call.inputs.begin()->second;
  for (const auto& [port, rows] : call.inputs)
    if (rows.columns < 1 || rows.data.empty() || std::ssize(rows.data) % rows.columns != 0 ||
        rows.count() != first.count())
      return bad_call(fmt::format("the rows of port {} are incomplete", port));
  return first.count();
}

}  // namespace

Result<const manifest::Step*> Session::Impl::called_step(const ExpertCall& call,
                                                         const CalledShard& called,
                                                         const Chunk& chunk) const {
  const manifest::Shard* shard = manifest.find_shard(called.name);
  if (!shard || peers.absent.contains(called.name) || !is_expert_group(shard->kind) ||
      shard->layer != call.layer)
    return bad_call(fmt::format("the node has no experts {} of layer {}", called.name, call.layer));
  const manifest::Width& width = shard->widths[graph_of(*shard, chunk)];
  if (digest_of(*shard, graph_of(*shard, chunk)) != called.digest)
    return bad_call(fmt::format("shard {} is that of another export", called.name));
  const auto step =
      std::find_if(manifest.schedule.begin(), manifest.schedule.end(),
                   [&](const manifest::Step& one) { return one.shard == called.name; });
  if (step == manifest.schedule.end() || !is_callable(*step))
    return bad_call(fmt::format("shard {} cannot run for another node", called.name));
  MOEC_TRY(check_rows(call, *step, width));
  return &*step;
}

Result<Rows> Session::run_experts(ExpertCall call) {
  Impl& impl = *impl_;
  MOEC_ASSIGN(const int64_t tokens, tokens_of(call));
  if (call.numerics != impl.numerics())
    return bad_call(fmt::format("this node computes in \"{}\", the caller in \"{}\"",
                                impl.numerics(), printable(call.numerics, 60)));
  const auto& widths = impl.manifest.build.tokens;
  if (tokens > widths.back())
    return bad_call(fmt::format("the call has {} tokens, but the maximum token width is {}", tokens,
                                widths.back()));
  Chunk chunk;
  chunk.count = tokens;
  while (widths[chunk.width] < tokens) ++chunk.width;
  // The slots of this node have no places for the caller's experts.
  if (const auto routing = call.inputs.find(std::string(kRoutingWeights));
      impl.experts && routing != call.inputs.end())
    keep_experts(own_experts(), call.layer, routing->second);
  Rows sum;
  for (const CalledShard& called : call.shards) {
    MOEC_ASSIGN(const manifest::Step* step, impl.called_step(call, called, chunk));
    for (const InputBinding& input : step->inputs)
      if (input.source == SourceKind::edge) {
        const bool chained = input.port == step->skip_from && !sum.data.empty();
        chunk.edges[input.edge] = chained ? sum : call.inputs.at(input.port);
      }
    const auto index = static_cast<size_t>(step - impl.manifest.schedule.data());
    MOEC_TRY(impl.run_shard(index, chunk, {}));
    sum = chunk.edges.at(edge_of(step->outputs, step->skip_to));
  }
  return sum;
}

}  // namespace moec
