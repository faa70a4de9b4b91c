#include "frontends/jobs/split/export_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/manifest/check_parts.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "frontends/jobs/split/requested_nodes.h"
#include "ir/experts/expert_runs.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

// The requested contents of a node.
struct WantedNode {
  std::string name;
  ExpertSets experts;  // per MoE layer of the span
  LayerSpan layers;
  int64_t stage = 0, stages = 1;
};

// Returns the next step that leads to an export whose shards fit the nodes.
std::string fitting_export(const SplitOptions& options) {
  if (!options.place_file.empty())
    return fmt::format("export the model again with --expert-groups {}", options.place_file);
  if (options.groups > 0)
    return fmt::format(
        "run moec place MODEL --nodes {} --policy contiguous --out place.json, then moec export … "
        "--expert-groups place.json, and split with --place place.json",
        options.groups);
  return "write the set to a file of groups and run moec export … --expert-groups FILE";
}

class NodeMaker {
 public:
  NodeMaker(const SplitOptions& options, const Manifest& whole, const WantedNode& wanted)
      : options_(options), whole_(whole), wanted_(wanted) {}

  Result<ExportNode> make() {
    made_.name = wanted_.name;
    made_.experts = wanted_.experts;
    // Starts from the whole manifest, so that fields unknown here are kept.
    made_.manifest = whole_;
    describe();
    MOEC_TRY(take_shards());
    MOEC_TRY(check_packages());
    MOEC_TRY(take_steps());
    take_rest();
    // Checks the cut before anything is written.
    Diagnostics findings = check_manifest(made_.manifest);
    if (has_error(findings)) return fail(std::move(findings));
    MOEC_ASSIGN(made_.manifest_bytes, moec::manifest_bytes(made_.manifest));
    list_files();
    return std::move(made_);
  }

 private:
  Manifest& manifest() { return made_.manifest; }

  void describe() {
    const ExpertGrid grid = expert_grid(whole_);
    ExpertSets sets = wanted_.experts;
    // A layer with all experts needs no set; its absence means all.
    std::erase_if(sets.layers,
                  [&](const auto& layer) { return std::ssize(layer.second) == grid.experts; });
    manifest().node = manifest::Node{
        wanted_.name,   to_string(sets),      wanted_.stage,
        wanted_.stages, wanted_.layers.first, wanted_.layers.end - wanted_.layers.first};
    // Devices, side files and the digest of manifest.bin describe the whole export.
    manifest().devices.clear();
    manifest().side_files.clear();
    manifest().binary.reset();
  }

  tl::unexpected<Diagnostics> unfit(const manifest::Shard& shard, std::string cause) const {
    return fail("split.shards", fmt::format("layer {}: {}", shard.layer, cause),
                fitting_export(options_), {.shard = shard.name});
  }

  // True if the node has all layers of the shard, false if it has none. Error: the node has only
  // some of them.
  Result<bool> has_layers(const manifest::Shard& shard) const {
    const auto [first, end] = wanted_.layers;
    // The head belongs to the stage with the last layer.
    if (is_head(shard.kind)) return end == whole_.model.layers;
    const int64_t last = shard.layer + shard.layers - 1;
    const bool begins = first <= shard.layer && shard.layer < end;
    // A shard fits if its first and last layer agree on being inside.
    if (begins == (first <= last && last < end)) return begins;
    return fail("split.shards",
                fmt::format("the shard has layers {} to {}, but node {} has layers {} to {}",
                            shard.layer, last, wanted_.name, first, end - 1),
                "export the model again without --layers-per-shard", {.shard = shard.name});
  }

  // True if the node needs all experts of the shard, false if it needs none. Error: the node needs
  // only some of them.
  Result<bool> has_experts(const manifest::Shard& shard) const {
    // Shards without routed experts belong to every node.
    if (shard.experts == 0) return true;
    bool any = false, all = true;
    for (const int64_t layer : shard.moe_layers)
      for (const ExpertRun& run : expert_runs(shard))
        for (int64_t e = run.first; e < run.first + run.count; ++e) {
          const bool has = wanted_.experts.has(layer, e);
          any |= has;
          all &= has;
        }
    // Equal only if the node needs all experts (both true) or none (both false).
    if (any == all) return any;
    return unfit(
        shard, fmt::format("the shard mixes experts of node {} with other experts", wanted_.name));
  }

  Result<bool> holds(const manifest::Shard& shard) const {
    MOEC_ASSIGN(const bool layers, has_layers(shard));
    if (!layers) return false;
    return has_experts(shard);
  }

  Status take_shards() {
    manifest().shards.clear();
    for (const manifest::Shard& shard : whole_.shards) {
      MOEC_ASSIGN(const bool held, holds(shard));
      if (held) manifest().shards.push_back(shard);
    }
    return {};
  }

  // Refuses to divide a package, because each node would get the weights of all of its experts.
  Status check_packages() {
    std::set<std::string_view> held;
    for (const manifest::Shard& shard : manifest().shards)
      for (const manifest::Width& width : shard.widths) held.insert(width.file.path);
    for (const manifest::Shard& shard : whole_.shards)
      if (held.contains(shard.widths.front().file.path) && !has_shard(shard.name))
        return fail("split.shards",
                    fmt::format("node {} needs only some of the experts in {}", wanted_.name,
                                shard.widths.front().file.path),
                    "export the model again with --widths separate, so that each expert has a "
                    "package",
                    {.shard = shard.name});
    return {};
  }

  // Removes the steps of absent experts from the schedule. Later steps then read the sum that a
  // removed step would have updated.
  Status take_steps() {
    manifest().schedule.clear();
    // Maps the output edge of a skipped step to the edge that it would have added to.
    std::map<std::string, std::string> skipped;
    for (const manifest::Step& original : whole_.schedule) {
      manifest::Step step = original;
      // Chains of skipped steps resolve, because the map holds the final edge.
      for (InputBinding& input : step.inputs)
        if (const auto found = skipped.find(input.edge); found != skipped.end())
          input.edge = found->second;
      const manifest::Shard& shard = *whole_.find_shard(step.shard);
      const auto [first, end] = wanted_.layers;
      if (manifest().find_shard(step.shard))
        manifest().schedule.push_back(std::move(step));
      else if (first <= shard.layer && shard.layer < end)
        MOEC_TRY(skip(step, shard, skipped));
      else if (shard.layer >= end)
        hand_on(original, skipped);
    }
    return {};
  }

  // Renames the output of the last remaining step to the edge that the next stage reads. The name
  // of this edge must not depend on the experts of the node.
  void hand_on(const manifest::Step& reader, const std::map<std::string, std::string>& skipped) {
    for (const InputBinding& input : reader.inputs)
      if (const auto found = skipped.find(input.edge); found != skipped.end())
        rename_edge(found->second, input.edge);
  }

  void rename_edge(const std::string& from, const std::string& to) {
    const auto rename = [&](auto& bindings) {
      for (auto& binding : bindings)
        if (binding.edge == from) binding.edge = to;
    };
    for (manifest::Step& step : manifest().schedule) {
      rename(step.inputs);
      rename(step.outputs);
    }
  }

  static bool adds_to_sum(const manifest::Step& step) {
    return std::any_of(step.inputs.begin(), step.inputs.end(),
                       [](const InputBinding& input) { return input.port == kPartialSumPort; });
  }

  Status skip(const manifest::Step& step, const manifest::Shard& shard,
              std::map<std::string, std::string>& skipped) const {
    if (step.skip_from.empty())
      // Only a step that adds to a sum can be skipped.
      return unfit(shard, fmt::format("node {} needs none of the shard's experts, but the shard {}",
                                      wanted_.name,
                                      adds_to_sum(step) ? "also adds the shared expert"
                                                        : "initialises the sum of all experts"));
    const auto edge_of = [](const auto& bindings, const std::string& port) {
      return std::find_if(bindings.begin(), bindings.end(),
                          [&](const auto& binding) { return binding.port == port; })
          ->edge;
    };
    skipped[edge_of(step.outputs, step.skip_to)] = edge_of(step.inputs, step.skip_from);
    return {};
  }

  void take_rest() {
    Manifest& node = manifest();
    const auto [first, end] = wanted_.layers;
    std::erase_if(node.caches, [first = first, end = end](const manifest::Cache& cache) {
      return cache.layer < first || cache.layer >= end;
    });
    // Slices and goldens of shards on other nodes would refer to missing files.
    std::erase_if(node.logits.slices, [&](const auto& slice) { return !has_shard(slice.shard); });
    std::erase_if(node.golden, [&](const auto& golden) { return !has_shard(golden.shard); });
    // The embedding belongs to the first stage only.
    if (!node.has_embedding()) node.embedding = {};
    ExpertSets mask = expert_mask_of(whole_).value_or(ExpertSets());
    std::erase_if(mask.layers, [first = first, end = end](const auto& layer) {
      return layer.first < first || layer.first >= end;
    });
    node.build.expert_mask = to_string(mask);
  }

  bool has_shard(const std::string& name) { return manifest().find_shard(name) != nullptr; }

  void list_files() {
    manifest::for_each_file(manifest(),
                            [&](const manifest::FileRef& file, const std::string& name) {
                              const manifest::Shard* shard = manifest().find_shard(name);
                              const bool experts = shard && is_expert_group(shard->kind);
                              (experts ? made_.of_experts : made_.trunk).push_back(file);
                            });
  }

  const SplitOptions& options_;
  const Manifest& whole_;
  const WantedNode& wanted_;
  ExportNode made_;
};

uint64_t bytes_of_files(const std::vector<manifest::FileRef>& files) {
  uint64_t bytes = 0;
  for (const manifest::FileRef& file : files) bytes += static_cast<uint64_t>(file.bytes);
  return bytes;
}

// Returns the experts of each layer of a span, without wildcards.
ExpertSets sets_in(const ExpertSets& sets, const LayerSpan& span, const ExpertGrid& grid) {
  std::vector<int64_t> all;
  for (int64_t e = 0; e < grid.experts; ++e) all.push_back(e);
  ExpertSets own;
  for (const int64_t layer : grid.layers) {
    if (layer < span.first || layer >= span.end) continue;
    const auto found = sets.layers.find(layer);
    // A layer without a set has all experts.
    own.layers[layer] = found == sets.layers.end() ? all : found->second;
  }
  return own;
}

Result<std::vector<WantedNode>> wanted_nodes(const SplitOptions& options, const Manifest& whole) {
  const ExpertGrid grid = expert_grid(whole);
  MOEC_ASSIGN(RequestedNodes asked, requested_nodes(options, grid));
  const bool staged = !asked.stages.empty();
  // Without stages, one stage spans the whole model, so both cases share the loop.
  if (!staged) asked.stages = {{0, whole.model.layers}};
  if (asked.stages.back().end != whole.model.layers)
    return fail("split.stages",
                fmt::format("the stages have {} layers, but the model has {}",
                            asked.stages.back().end, whole.model.layers),
                "make the placement for this model", {.file = options.place_file});
  MOEC_ASSIGN(const ExpertSets mask, expert_mask_of(whole));
  std::vector<WantedNode> nodes;
  for (const LayerSpan& span : asked.stages)
    for (const ExpertGroup& group : asked.groups) {
      // The address gives the stage, because the loop variable is a reference into the list.
      const int64_t stage = &span - asked.stages.data();
      WantedNode node{group.name, sets_in(group.experts, span, grid), span, stage,
                      std::ssize(asked.stages)};
      if (staged) node.name = fmt::format("stage{}.{}", stage, group.name);
      // A token picks from the experts that both the node and the mask of the export keep.
      MOEC_TRY(check_enough(in_both(node.experts, mask), grid, fmt::format("node {}", node.name)));
      nodes.push_back(std::move(node));
    }
  return nodes;
}

}  // namespace

uint64_t ExportNode::expert_bytes() const { return bytes_of_files(of_experts); }

uint64_t ExportNode::bytes() const {
  return bytes_of_files(trunk) + bytes_of_files(of_experts) + manifest_bytes;
}

Result<std::vector<ExportNode>> export_nodes(const SplitOptions& options, const Manifest& whole) {
  if (expert_grid(whole).layers.empty())
    return fail("split.no_experts", "the export has no experts",
                "pass an export of a model with experts", {.file = options.source});
  MOEC_ASSIGN(const std::vector<WantedNode> wanted, wanted_nodes(options, whole));
  MOEC_ASSIGN(const uint64_t whole_bytes, manifest_bytes(whole));
  std::vector<ExportNode> nodes;
  for (const WantedNode& node : wanted) {
    MOEC_ASSIGN(ExportNode made, NodeMaker(options, whole, node).make());
    made.manifest_bytes += whole_bytes;
    nodes.push_back(std::move(made));
  }
  return nodes;
}

}  // namespace moec
