#include "frontends/nodes/node_gates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "frontends/nodes/node_client.h"
#include "ir/base/at.h"
#include "ir/base/json_fields.h"

namespace moec {
namespace {

// Counts of a profile are integers, while those of a server decay.
constexpr double kUnit = 1000;
// A server answers between two steps of its texts.
constexpr std::chrono::milliseconds kAnswer{30'000};
// Enough for the pairs of 2,048 experts.
constexpr JsonLimits kLimits{.bytes = size_t{64} << 20, .values = size_t{1} << 22};

class GatesReader {
 public:
  GatesReader(const NodeServer& server, const GatesModel& model) : server_(server), model_(model) {}

  Result<NodeGates> read() {
    if (server_.api != NodeApi::moec)
      return error("gates.api",
                   fmt::format("has the API {}, which logs no gates", enum_name(server_.api)),
                   "list servers of moec serve only");
    NodeGates gates{server_, {}, {}};
    MOEC_TRY(ask("/v1/gates", [&](JsonFields& fields) { return read_head(fields, gates); }));
    for (const int64_t layer : model_.grid.layers)
      MOEC_TRY(ask(fmt::format("/v1/gates?layer={}", layer),
                   [&](JsonFields& fields) { return read_layer(fields, layer, gates); }));
    return gates;
  }

 private:
  tl::unexpected<Diagnostics> error(std::string code, const std::string& what,
                                    std::string next) const {
    return fail(std::move(code), fmt::format("server {} {}", server_.name, what), std::move(next),
                {.file = server_.url});
  }

  template <class Read>
  Status ask(const std::string& path, Read read) const {
    const NodeReply reply = get_from_node(server_, path, kAnswer);
    if (reply.status == 0)
      return error("gates.unreachable", "does not answer",
                   "start the server, or list only servers that run");
    if (reply.status == 401)
      return error("gates.status", "requires a key",
                   "pass a file of nodes in which the server has an api_key_file");
    if (reply.status != 200)
      return error("gates.status", fmt::format("answers {} with status {}", path, reply.status),
                   "update the server to this version of moec");
    const JsonReport report(
        reply.body, server_.url + path,
        JsonCodes::by_prefix("gates", "update the server to this version of moec"));
    MOEC_ASSIGN(const JsonValue value, report.parse(kLimits));
    MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
    // Unknown fields are those of newer servers.
    return read(fields);
  }

  Status read_head(JsonFields& fields, NodeGates& gates) const {
    std::string family, experts;
    std::vector<int64_t> layers;
    int64_t count = 0, top_k = 0;
    MOEC_TRY(fields.text("family", family));
    MOEC_TRY(fields.integers("layers", layers));
    MOEC_TRY(fields.whole("expert_count", count));
    MOEC_TRY(fields.whole("top_k", top_k));
    const ExpertGrid& grid = model_.grid;
    if (family != model_.family || layers != grid.layers || count != grid.experts ||
        top_k != grid.top_k)
      return error("gates.model",
                   fmt::format("serves {} with {} MoE layers of {} experts and top-k {}, expected "
                               "{} with {} layers of {} experts and top-k {}",
                               printable(family), layers.size(), count, top_k, model_.family,
                               grid.layers.size(), grid.experts, grid.top_k),
                   "list nodes of this model only");
    MOEC_TRY(fields.text("experts", experts));
    // An empty text means all experts.
    if (experts.empty()) return {};
    MOEC_ASSIGN(gates.experts, parse_expert_sets(experts, grid, server_.url));
    return {};
  }

  Status read_layer(JsonFields& fields, int64_t number, NodeGates& gates) const {
    LayerProfile layer{.layer = number};
    const int64_t experts = model_.grid.experts;
    double tokens = 0;
    MOEC_TRY(fields.number("tokens", tokens));
    if (!(tokens >= 0 && tokens <= kMostTokens)) return fields.bad("tokens", kRange);
    layer.tokens = units(tokens);
    MOEC_TRY(read_counts(fields, "selections", experts, layer.selections));
    MOEC_TRY(read_counts(fields, "together", count_pairs(experts), layer.together));
    MOEC_TRY(fields.numbers("mass", layer.mass));
    MOEC_TRY(check_list(fields, "mass", experts, layer.mass));
    limit(layer);
    gates.layers.push_back(std::move(layer));
    return {};
  }

  static Status read_counts(JsonFields& fields, const char* name, int64_t size,
                            std::vector<int64_t>& counts) {
    std::vector<double> numbers;
    MOEC_TRY(fields.numbers(name, numbers));
    MOEC_TRY(check_list(fields, name, size, numbers));
    counts.reserve(numbers.size());
    for (const double number : numbers) counts.push_back(units(number));
    return {};
  }

  static Status check_list(const JsonFields& fields, const char* name, int64_t size,
                           const std::vector<double>& numbers) {
    if (std::ssize(numbers) != size)
      return fields.bad(name,
                        fmt::format("has {} numbers, but must have {}", numbers.size(), size));
    // Written so that NaN fails, too.
    if (std::all_of(numbers.begin(), numbers.end(),
                    [](double number) { return number >= 0 && number <= kMostTokens; }))
      return {};
    return fields.bad(name, kRange);
  }

  static int64_t units(double number) { return std::llround(number * kUnit); }

  // Restores relations of a profile that rounding may break. A token chooses at most top-k experts.
  // An expert is not chosen more often than there are tokens, nor a pair more often than its
  // experts. Only chosen experts have mass.
  void limit(LayerProfile& layer) const {
    int64_t all = 0;
    for (const int64_t count : layer.selections) all += count;
    const int64_t top_k = model_.grid.top_k;
    layer.tokens = std::max(layer.tokens, (all + top_k - 1) / top_k);
    auto pair = layer.together.begin();
    for (size_t i = 0; i < layer.selections.size(); ++i) {
      layer.selections[i] = std::min(layer.selections[i], layer.tokens);
      layer.mass[i] = layer.selections[i] == 0 ? 0 : layer.mass[i] * kUnit;
    }
    for (size_t i = 0; i < layer.selections.size(); ++i)
      for (size_t j = i + 1; j < layer.selections.size(); ++j, ++pair)
        *pair = std::min(*pair, std::min(layer.selections[i], layer.selections[j]));
  }

  // Far above the sum of a decayed count, which is at most half-life / ln 2.
  static constexpr double kMostTokens = 1e9;
  static constexpr const char* kRange = "must be from 0 to 1e9";

  const NodeServer& server_;
  const GatesModel& model_;
};

template <class Number>
void add(const std::vector<Number>& from, std::vector<Number>& to) {
  to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

}  // namespace

Result<std::vector<NodeGates>> fetch_gates(const std::vector<NodeServer>& servers,
                                           const GatesModel& model) {
  std::vector<NodeGates> gates;
  for (const NodeServer& server : servers) {
    MOEC_ASSIGN(NodeGates own, GatesReader(server, model).read());
    gates.push_back(std::move(own));
  }
  return gates;
}

Result<std::vector<NodeGroup>> groups_of_servers(const std::vector<NodeGates>& gates) {
  std::vector<NodeGroup> groups;
  for (const NodeGates& own : gates) {
    const NodeServer& server = own.server;
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& one) { return one.name == server.group; });
    if (group == groups.end()) {
      groups.push_back({server.group, {server.name}, own.experts});
      continue;
    }
    if (own.experts != group->experts)
      return fail("gates.replicas",
                  fmt::format("servers {} and {} of group {} have different experts",
                              group->servers.front(), server.name, server.group),
                  "give servers of different nodes different groups in the file of nodes",
                  {.file = server.url});
    group->servers.push_back(server.name);
  }
  return groups;
}

Result<ExpertProfile> profile_of_gates(const std::vector<NodeGates>& gates,
                                       const std::vector<NodeGroup>& groups,
                                       const GatesModel& model) {
  ExpertProfile profile{.model = model.family,
                        .source = "nodes",
                        .experts = model.grid.experts,
                        .top_k = model.grid.top_k};
  for (const NodeGroup& group : groups) profile.categories.push_back({group.name, 0, 0});
  for (size_t l = 0; l < model.grid.layers.size(); ++l) {
    LayerProfile& sum = profile.layers.emplace_back(LayerProfile{.layer = model.grid.layers[l]});
    sum.by_category.assign(groups.size(),
                           std::vector<int64_t>(static_cast<size_t>(model.grid.experts)));
    for (const NodeGates& own : gates) {
      const LayerProfile& layer = own.layers[l];
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& one) {
        return one.name == own.server.group;
      });
      sum.tokens += layer.tokens;
      add(layer.selections, sum.selections);
      add(layer.mass, sum.mass);
      add(layer.together, sum.together);
      add(layer.selections, at(sum.by_category, group - groups.begin()));
      if (l == 0) at(profile.categories, group - groups.begin()).tokens += layer.tokens;
    }
  }
  const auto served = [](const LayerProfile& layer) { return layer.tokens > 0; };
  if (std::all_of(profile.layers.begin(), profile.layers.end(), served)) return profile;
  return fail("gates.no_tokens", "the nodes have not served any text",
              "send texts to the nodes first; only nodes of moec split log gates");
}

}  // namespace moec
