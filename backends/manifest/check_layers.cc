// Checks that the shards cover each layer, expert and vocabulary entry of the model exactly once.
#include <algorithm>
#include <map>

#include "backends/manifest/check_parts.h"
#include "backends/manifest/expert_grid.h"
#include "ir/base/at.h"
#include "ir/experts/expert_runs.h"

namespace moec::manifest {
namespace {

constexpr int64_t kMaxLayers = 4096;  // in models without caches

struct Range {
  int64_t begin, size;
  auto operator<=>(const Range&) const = default;
};

// Adds a finding if the ranges do not cover [0, total) exactly once.
void check_tiling(std::vector<Range> ranges, int64_t total, const char* code, std::string_view what,
                  Findings& findings) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // The ranges before the current one cover [0, covered) exactly once.
  int64_t covered = 0;
  for (const Range& range : ranges) {
    // The order of the comparisons avoids overflow with hostile numbers.
    bool inside = range.begin >= 0 && range.begin < total && range.size > 0 &&
                  range.size <= total - range.begin;
    if (!findings.require(inside, code, {}, "{}: a range of {} starting at {} is outside [0, {})",
                          what, range.size, range.begin, total))
      return;
    if (!findings.require(
            range.begin == covered, code, {}, "{}: {} up to {}, the next range begins at {}", what,
            range.begin > covered ? "a gap: covered" : "an overlap: covered", covered, range.begin))
      return;
    covered += range.size;
  }
  findings.require(covered == total, code, {}, "{}: only {} of {} are covered", what, covered,
                   total);
}

// Slice `slice` of `slices` along the intermediate width.
struct Slice {
  int64_t slice, slices;
};

struct LayerShards {
  int64_t attention = 0, moe = 0, routers = 0, groups = 0;
  std::vector<Slice> mlp, shared;
  std::map<std::vector<ExpertRun>, std::vector<Slice>> experts;
  std::vector<int64_t> expert_totals;  // as declared by each routing shard
};

// Checks that each slice is present once.
void check_slices(std::vector<Slice> slices, const char* code, std::string_view what,
                  Findings& findings) {
  std::sort(slices.begin(), slices.end(),
            [](const Slice& a, const Slice& b) { return a.slice < b.slice; });
  const auto count = std::ssize(slices);
  for (int64_t i = 0; i < count; ++i) {
    const auto& [slice, of] = at(slices, i);
    if (!findings.require(slice == i && of == count, code, {},
                          "{}: found slice {} of {}, expected slice {} of {}", what, slice, of, i,
                          count))
      return;
  }
}

bool lists(const std::vector<int64_t>& layers, int64_t layer) {
  return std::binary_search(layers.begin(), layers.end(), layer);
}
bool mixes(const Model& model, int64_t layer) { return !lists(model.feed_forward_only, layer); }
bool feeds(const Model& model, int64_t layer) { return !lists(model.mixer_only, layer); }

// Adds the shard's parts of `layer` to the counts.
void add_shard(const Model& model, const Shard& shard, int64_t layer, LayerShards& found) {
  const bool whole = holds_whole_layers(shard.kind);
  const bool routes = lists(shard.moe_layers, layer);
  found.attention += is_attention(shard.kind) || (whole && mixes(model, layer));
  const Slice slice{shard.slice, shard.slices};
  if (is_dense(shard.kind) || (whole && !routes && feeds(model, layer))) found.mlp.push_back(slice);
  if (is_shared_expert(shard.kind)) found.shared.push_back(slice);
  found.moe += is_whole_moe(shard.kind) || (whole && routes);
  found.routers += is_router(shard.kind);
  found.groups += is_expert_group(shard.kind);
  if (routes && !is_router(shard.kind)) found.experts[expert_runs(shard)].push_back(slice);
  if (routes && shard.routing) found.expert_totals.push_back(shard.routing->experts);
}

std::map<int64_t, LayerShards> shards_by_layer(const Manifest& manifest) {
  std::map<int64_t, LayerShards> layers;
  for (const Shard& shard : manifest.shards)
    for (int64_t layer = shard.layer; layer < shard.layer + shard.layers; ++layer)
      add_shard(manifest.model, shard, layer, layers[layer]);
  return layers;
}

// Checks that the shard's layers exist and that their number is valid for its kind.
bool check_held_layers(const Manifest& manifest, const Shard& shard, Findings& findings) {
  // The head has layer -1 and holds no layers.
  const bool head = is_head(shard.kind);
  const int64_t first = head ? -1 : manifest.first_layer(), end = head ? 0 : manifest.end_layer();
  if (!findings.require(first <= shard.layer && shard.layer < end, "manifest.layer", shard.name,
                        "the shard's layer {} is out of range", shard.layer))
    return false;
  const int64_t least = head ? 0 : 1;
  const int64_t most = holds_whole_layers(shard.kind) ? end - shard.layer : least;
  return findings.require(least <= shard.layers && shard.layers <= most, "manifest.layer",
                          shard.name, "the shard cannot have {} layers starting at {}",
                          shard.layers, shard.layer);
}

// Checks that only shards of an MLP, a shared expert or an expert group are slices.
void check_slice(const Shard& shard, Findings& findings) {
  const bool sliced =
      is_dense(shard.kind) || is_shared_expert(shard.kind) || is_expert_group(shard.kind);
  const bool whole = shard.slice == 0 && shard.slices == 1;
  findings.require(whole || (sliced && shard.slice >= 0 && shard.slice < shard.slices),
                   "manifest.number", shard.name, "the shard cannot be slice {} of {}", shard.slice,
                   shard.slices);
}

// Checks that only shards of non-consecutive experts have `expert_ids`, and that these are
// ascending. A whole layer has such experts only if masked ones were dropped.
bool check_expert_ids(const Manifest& manifest, const Shard& shard, Findings& findings) {
  const std::vector<int64_t>& ids = shard.expert_ids;
  if (ids.empty()) return true;
  const bool ascending =
      std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
  const bool may_list =
      is_expert_group(shard.kind) || (is_whole_moe(shard.kind) && manifest.build.drop_masked);
  // Consecutive experts must not be listed, so that a set of experts has a single form.
  return findings.require(ascending && ids.front() >= 0 && ids.back() <= kMaxElements && may_list &&
                              ids.front() == shard.first_expert &&
                              std::ssize(ids) == shard.experts &&
                              ids.back() - ids.front() >= shard.experts,
                          "manifest.experts", shard.name,
                          "expert_ids must be {} ascending experts starting at {}, with a gap",
                          shard.experts, shard.first_expert);
}

// Checks that the MoE layers of a shard are ascending, within its layers, and valid for its kind.
void check_moe_layers(const Shard& shard, Findings& findings) {
  const std::vector<int64_t>& routed = shard.moe_layers;
  const bool whole = holds_whole_layers(shard.kind);
  const bool routes =
      is_whole_moe(shard.kind) || is_router(shard.kind) || is_expert_group(shard.kind);
  const bool ascending =
      std::adjacent_find(routed.begin(), routed.end(), std::greater_equal<>()) == routed.end();
  const bool inside = routed.empty() ||
                      (routed.front() >= shard.layer && routed.back() < shard.layer + shard.layers);
  // A shard of whole layers may be dense. Shards of all other kinds have MoE layers exactly if
  // their kind routes.
  findings.require(ascending && inside && (whole || routed.empty() != routes), "manifest.layer",
                   shard.name, "the shard's MoE layers [{}] are invalid", fmt::join(routed, ", "));
}

// Checks that k does not exceed the number of experts, or of experts in the kept groups, and that
// groups have equal sizes.
void check_routing(const Shard& shard, Findings& findings) {
  const int64_t experts = shard.routing->experts;
  const Router& router = shard.routing->router;
  findings.require(router.top_k >= 1 && router.top_k <= experts, "manifest.routing", shard.name,
                   "each token selects {} of {} experts", router.top_k, experts);
  if (!findings.require(router.groups >= 1 && experts % router.groups == 0 &&
                            router.groups_kept >= 1 && router.groups_kept <= router.groups,
                        "manifest.routing", shard.name,
                        "{} experts cannot be selected from {} of {} groups", experts,
                        router.groups_kept, router.groups))
    return;
  // The product cannot overflow: after the division, it is at most `experts`.
  const int64_t most = experts / router.groups * router.groups_kept;
  findings.require(router.groups == 1 || router.top_k <= most, "manifest.routing", shard.name,
                   "each token selects {} experts, but the kept groups have {}", router.top_k,
                   most);
}

// Checks that the ranges cover the folder's experts exactly once.
void check_held_experts(std::vector<Range> ranges, const std::vector<int64_t>& experts,
                        std::string_view what, Findings& findings) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> wanted;
  for (const ExpertRun& run : runs_of(experts)) wanted.push_back({run.first, run.count});
  // Each range removes a part from the front of the next wanted run. A mismatch sets an index that
  // no later range matches.
  size_t at_wanted = 0;
  for (const auto& [begin, size] : ranges) {
    if (at_wanted < wanted.size() && wanted[at_wanted].begin == begin && size > 0 &&
        size <= wanted[at_wanted].size) {
      wanted[at_wanted] = {begin + size, wanted[at_wanted].size - size};
      at_wanted += wanted[at_wanted].size == 0;
    } else {
      at_wanted = wanted.size() + 1;
    }
  }
  findings.require(at_wanted == wanted.size(), "manifest.experts", {},
                   "{}: the shards must hold each of the experts {} once", what,
                   fmt::join(experts, ","));
}

// Checks that layers with a single part are layers of the model, each listed once.
void check_parts(const Model& model, Findings& findings) {
  std::vector<int64_t> listed = model.mixer_only;
  listed.insert(listed.end(), model.feed_forward_only.begin(), model.feed_forward_only.end());
  const bool ascending =
      std::is_sorted(model.mixer_only.begin(), model.mixer_only.end()) &&
      std::is_sorted(model.feed_forward_only.begin(), model.feed_forward_only.end());
  std::sort(listed.begin(), listed.end());
  const bool once = std::adjacent_find(listed.begin(), listed.end()) == listed.end();
  const bool inside = listed.empty() || (listed.front() >= 0 && listed.back() < model.layers);
  findings.require(
      ascending && once && inside, "manifest.layer", {},
      "the layers of one part are [{}] and [{}] of {}, expected ascending and disjoint lists",
      fmt::join(model.mixer_only, ", "), fmt::join(model.feed_forward_only, ", "), model.layers);
}

bool has_feed_forward(const LayerShards& found) {
  return !found.mlp.empty() || found.moe > 0 || found.routers > 0 || found.groups > 0 ||
         !found.shared.empty();
}

// `sets` are the experts of the folder.
void check_layer(const Model& model, int64_t layer, const LayerShards& found,
                 const ExpertSets& sets, Findings& findings) {
  findings.require(found.attention == int{mixes(model, layer)}, "manifest.layer", {},
                   "layer {} has {} attention shards{}", layer, found.attention,
                   mixes(model, layer) ? "" : ", but is only a feed-forward part");
  if (!feeds(model, layer)) {
    findings.require(!has_feed_forward(found), "manifest.layer", {},
                     "layer {} has feed-forward shards, but is only a mixer", layer);
    return;
  }
  bool routed = found.moe > 0 || found.groups > 0;
  // Only layers with expert groups can have separate router and shared-expert shards.
  bool one_part = found.mlp.empty() == routed && found.routers == int{found.groups > 0} &&
                  (found.moe == 0 || found.groups == 0) &&
                  (found.shared.empty() || found.groups > 0);
  findings.require(one_part, "manifest.layer", {},
                   "layer {} needs one mlp, moe shards, or a router with expert groups; it has "
                   "{} mlp, {} moe, {} router, {} shared-expert and {} expert-group shards",
                   layer, found.mlp.size(), found.moe, found.routers, found.shared.size(),
                   found.groups);
  check_slices(found.mlp, "manifest.layer", fmt::format("the MLP of layer {}", layer), findings);
  check_slices(found.shared, "manifest.layer", fmt::format("the shared expert of layer {}", layer),
               findings);
  if (!routed) return;
  const std::vector<int64_t>& totals = found.expert_totals;
  bool agree = !totals.empty() && std::equal(totals.begin() + 1, totals.end(), totals.begin());
  if (!findings.require(agree, "manifest.experts", {},
                        "layer {}: its shards disagree on the number of experts", layer))
    return;
  const std::string what = fmt::format("experts of layer {}", layer);
  std::vector<Range> ranges;
  // Slices of a group have the same runs, so each entry is one group.
  for (const auto& [runs, slices] : found.experts) {
    for (const ExpertRun& run : runs) ranges.push_back({run.first, run.count});
    check_slices(slices, "manifest.experts",
                 fmt::format("{} starting at {}", what, runs.front().first), findings);
  }
  if (const auto own = sets.layers.find(layer); own != sets.layers.end())
    return check_held_experts(std::move(ranges), own->second, what, findings);
  check_tiling(ranges, totals.front(), "manifest.experts", what, findings);
}

}  // namespace

void check_layers(const Manifest& manifest, Findings& findings) {
  // Bounds the loops below, because a hostile file could declare a huge number of layers.
  const auto caches = std::ssize(manifest.caches);
  const int64_t most = !has_cache(manifest.build.cache) ? kMaxLayers : caches;
  const int64_t held = manifest.end_layer() - manifest.first_layer();
  if (!findings.require(held <= most, "manifest.layer", {},
                        "{} layers need one cache each, found {}", held, caches))
    return;
  check_parts(manifest.model, findings);
  // whole_layers bounds shards_by_layer(), which visits each layer of each shard.
  int64_t whole_layers = 0;
  for (const Shard& shard : manifest.shards) {
    if (!check_held_layers(manifest, shard, findings)) return;
    check_moe_layers(shard, findings);
    if (!check_expert_ids(manifest, shard, findings)) return;
    check_slice(shard, findings);
    if (shard.routing) check_routing(shard, findings);
    if (holds_whole_layers(shard.kind)) whole_layers += shard.layers;
    if (!findings.require(whole_layers <= manifest.model.layers, "manifest.layer", shard.name,
                          "shards of whole layers hold {} layers, the model has {}", whole_layers,
                          manifest.model.layers))
      return;
  }
  std::map<int64_t, LayerShards> layers = shards_by_layer(manifest);
  const auto sets = held_experts_of(manifest);
  if (!sets) return;  // reported by check_node() and check_mask()
  for (int64_t layer = manifest.first_layer(); layer < manifest.end_layer(); ++layer)
    check_layer(manifest.model, layer, layers[layer], *sets, findings);
}

void check_vocabulary(const Manifest& manifest, Findings& findings) {
  ShardIndex shards = index_shards(manifest);
  std::vector<Range> ranges;
  for (const LogitSlice& slice : manifest.logits.slices) {
    ranges.push_back({slice.begin, slice.size});
    const Shard* shard = find_shard(shards, slice.shard);
    bool same = shard && is_head(shard->kind) && shard->vocab_begin == slice.begin &&
                shard->vocab_size == slice.size;
    findings.require(same, "manifest.vocabulary", slice.shard,
                     "the logits starting at {} do not match a head shard of that name",
                     slice.begin);
  }
  bool in_order = std::is_sorted(ranges.begin(), ranges.end(),
                                 [](const Range& a, const Range& b) { return a.begin < b.begin; });
  findings.require(in_order, "manifest.vocabulary", {}, "the logits are not in vocabulary order");
  const int64_t scored =
      manifest.tagging ? std::ssize(manifest.tagging->labels) : manifest.model.vocab;
  findings.require(manifest.logits.vocab == scored, "manifest.vocabulary", {},
                   "found {} logits for a {} of {}", manifest.logits.vocab,
                   manifest.tagging ? "list of labels" : "vocabulary", scored);
  if (!manifest.has_head()) {
    findings.require(ranges.empty(), "manifest.vocabulary", {},
                     "a node without the last layer has logits");
    return;
  }
  check_tiling(ranges, scored, "manifest.vocabulary", "logits", findings);
}

}  // namespace moec::manifest
