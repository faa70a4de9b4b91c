#include "frontends/jobs/route/choose_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "frontends/nodes/node_client.h"
#include "ir/base/refusals.h"

namespace moec {
namespace {

using nlohmann::json;
using Scores = std::vector<std::optional<double>>;  // by node; larger is better

struct Probe {
  int64_t tokens = 0;
  double kept = 0;
  RoutingShares routing;
};

// Nothing if the text is not the answer of a probe.
std::optional<Probe> parse_probe(const std::string& text) {
  const json reply = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object() || !reply.contains("kept") || !reply["kept"].is_number() ||
      !reply.contains("routing") || !reply["routing"].is_array())
    return std::nullopt;
  Probe probe;
  probe.kept = reply["kept"].get<double>();
  if (reply.contains("tokens") && reply["tokens"].is_number_integer())
    probe.tokens = reply["tokens"].get<int64_t>();
  for (const json& layer : reply["routing"]) {
    probe.routing.emplace_back();
    if (!layer.is_array()) return std::nullopt;
    for (const json& share : layer) {
      if (!share.is_number()) return std::nullopt;
      probe.routing.back().push_back(share.get<double>());
    }
  }
  return probe;
}

bool fits(const RoutingShares& routing, const ProbeTable& table) {
  return routing.size() == table.layers.size() &&
         std::all_of(routing.begin(), routing.end(), [&](const std::vector<double>& layer) {
           return std::ssize(layer) == table.experts;
         });
}

class Chooser {
 public:
  Chooser(const RouteRequest& request, const NodePool& pool, const std::optional<ProbeTable>& table,
          std::chrono::milliseconds most)
      : request_(request), pool_(pool), table_(table), most_(most), states_(pool.states()) {}

  NodeChoice choose() {
    if (const ProbeCategory* category = named_category())
      return ranked(by_category(*category), "category " + category->name);
    const std::vector<size_t> asked = nodes_to_ask();
    const std::vector<std::optional<Probe>> probes = ask(asked);
    const auto first =
        std::find_if(probes.begin(), probes.end(), [](const auto& probe) { return probe; });
    if (first == probes.end()) return ranked(Scores(pool_.size()), "fewest requests");
    NodeChoice choice = table_ ? by_nearest(**first) : by_share(asked, probes);
    choice.probed = true;
    return choice;
  }

 private:
  const ProbeCategory* named_category() const {
    if (!table_ || request_.category.empty()) return nullptr;
    const auto& categories = table_->categories;
    const auto found =
        std::find_if(categories.begin(), categories.end(),
                     [&](const ProbeCategory& one) { return one.name == request_.category; });
    return found == categories.end() ? nullptr : &*found;
  }

  Scores by_category(const ProbeCategory& category) const {
    Scores scores(pool_.size());
    for (size_t i = 0; i < pool_.size(); ++i)
      for (size_t g = 0; g < table_->groups.size(); ++g)
        if (table_->groups[g].name == pool_.node(i).group) scores[i] = category.log_probability[g];
    return scores;
  }

  NodeChoice by_nearest(const Probe& probe) const {
    if (!fits(probe.routing, *table_))
      return ranked(Scores(pool_.size()), "fewest requests: the table is of another model");
    const ProbeCategory& nearest = nearest_category(*table_, probe.routing);
    return ranked(by_category(nearest), fmt::format("probe of {} tokens, nearest category {}",
                                                    probe.tokens, nearest.name));
  }

  NodeChoice by_share(const std::vector<size_t>& asked,
                      const std::vector<std::optional<Probe>>& probes) const {
    Scores scores(pool_.size());
    int64_t tokens = 0;
    for (size_t i = 0; i < asked.size(); ++i)
      if (probes[i]) {
        scores[asked[i]] = probes[i]->kept;
        tokens = probes[i]->tokens;
      }
    return ranked(scores, fmt::format("probe of {} tokens", tokens));
  }

  // With a table, the routers of one node are enough.
  std::vector<size_t> nodes_to_ask() const {
    std::vector<size_t> nodes;
    for (size_t i = 0; i < pool_.size(); ++i)
      if (pool_.node(i).api == NodeApi::moec && pool_.is_usable(i)) nodes.push_back(i);
    const auto is_idler = [&](size_t a, size_t b) {
      return states_[a].running < states_[b].running;
    };
    if (table_ && !nodes.empty()) nodes = {*std::min_element(nodes.begin(), nodes.end(), is_idler)};
    return nodes;
  }

  // Asks the nodes at the same time.
  std::vector<std::optional<Probe>> ask(const std::vector<size_t>& nodes) const {
    const std::string path =
        table_ ? fmt::format("/v1/probe?tokens={}", table_->prefill) : std::string("/v1/probe");
    std::vector<std::optional<Probe>> probes(nodes.size());
    const auto ask_one = [&](size_t i) {
      const NodeReply reply = post_to_node(pool_.node(nodes[i]), path, request_.body, most_);
      if (reply.status == 200) probes[i] = parse_probe(reply.body);
    };
    ThreadGroup threads;
    for (size_t i = 1; i < nodes.size(); ++i)
      if (!threads.start([&, i] { ask_one(i); })) ask_one(i);
    if (!nodes.empty()) ask_one(0);
    threads.join();
    return probes;
  }

  NodeChoice ranked(const Scores& scores, const std::string& how) const {
    NodeChoice choice;
    choice.ranking.resize(pool_.size());
    std::iota(choice.ranking.begin(), choice.ranking.end(), size_t{0});
    std::stable_sort(choice.ranking.begin(), choice.ranking.end(), [&](size_t a, size_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b]  // an absent score is the smallest
                                    : states_[a].running < states_[b].running;
    });
    choice.reason = how + ":";
    for (const size_t node : choice.ranking) {
      choice.reason += " " + pool_.node(node).name;
      if (scores[node]) choice.reason += fmt::format(" {:.4f}", *scores[node]);
      if (!pool_.is_usable(node)) choice.reason += " (not usable)";
    }
    return choice;
  }

  const RouteRequest& request_;
  const NodePool& pool_;
  const std::optional<ProbeTable>& table_;
  const std::chrono::milliseconds most_;
  const std::vector<NodeState> states_;
};

}  // namespace

NodeChoice choose_nodes(const RouteRequest& request, const NodePool& pool,
                        const std::optional<ProbeTable>& table, std::chrono::milliseconds most) {
  return Chooser(request, pool, table, most).choose();
}

}  // namespace moec
