#include "frontends/jobs/split/split_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontends/jobs/split/asked_nodes.h"

namespace moec {
namespace {

constexpr int64_t kMostExperts = 1024;       // that llama.cpp takes
constexpr int64_t kLlama4WithoutNorm = 128;  // experts of the Llama 4 that has no QK-norm

std::string words_of(const ExpertGroup& group) { return fmt::format("node {}", group.name); }

// ---- What a node must be -----------------------------------------------------------------------

Status refuse_stages(const AskedNodes& asked, const std::string& file) {
  if (asked.stages.empty()) return {};
  return fail("split.stages",
              fmt::format("the placement has {} stages, and llama.cpp loads no file with a part of "
                          "the layers: it takes all blk.N of a model, the embedding and the head",
                          asked.stages.size()),
              "make a placement in which every node has experts of all layers, without --stages; "
              "or split an export of moec, which can be cut into stages",
              {.file = file});
}

// Every layer by name. Layers behind the decoder take the experts of its last one: they are as
// many, and what runs the decoder alone does not use them.
ExpertSets whole_sets(const ExpertGroup& group, const MoeSource& source) {
  std::vector<int64_t> all;
  for (int64_t e = 0; e < source.grid.experts; ++e) all.push_back(e);
  ExpertSets sets = group.experts;
  for (const int64_t layer : source.grid.layers) sets.layers.try_emplace(layer, all);
  for (const int64_t layer : source.behind)
    sets.layers[layer] = sets.layers.at(source.grid.layers.back());
  return sets;
}

Result<int64_t> equal_count(const ExpertSets& sets, const std::string& what) {
  std::map<size_t, std::vector<int64_t>> layers;  // by the number of their experts
  for (const auto& [layer, experts] : sets.layers) layers[experts.size()].push_back(layer);
  if (layers.size() == 1) {
    const auto count = static_cast<int64_t>(layers.begin()->first);
    if (count <= kMostExperts) return count;
    return fail("split.counts",
                fmt::format("{} has {} experts a layer, llama.cpp takes {} at most", what, count,
                            kMostExperts),
                "spread the experts over more nodes");
  }
  std::vector<std::string> found;
  for (const auto& [count, numbers] : layers)
    found.push_back(fmt::format("{} in layers {}", count, fmt::join(numbers, ",")));
  return fail("split.counts",
              fmt::format("{} has different numbers of experts in its layers: {}", what,
                          fmt::join(found, "; ")),
              "give the node as many experts in every layer: llama.cpp has one number for all; "
              "which ones they are may differ");
}

// The numbers of experts that a layer keeps of each group of which it keeps any.
std::vector<int64_t> kept_of_groups(const std::vector<int64_t>& experts, const ExpertGrid& grid) {
  std::map<int64_t, int64_t> kept;
  for (const int64_t expert : experts) ++kept[expert / (grid.experts / grid.groups)];
  std::vector<int64_t> counts;
  for (const auto& [group, count] : kept) counts.push_back(count);
  return counts;
}

// The groups of the node's routers. Those without experts are left out, which is what the whole
// router does when none of their experts can be chosen; if no more are left than a token keeps, all
// are kept and there is nothing to choose.
Result<int64_t> groups_left(const ExpertSets& sets, const ExpertGrid& grid,
                            const std::string& what) {
  if (grid.groups == 1) return 1;
  std::set<std::vector<int64_t>> kinds;
  for (const auto& [layer, experts] : sets.layers) {
    const std::vector<int64_t> kept = kept_of_groups(experts, grid);
    const auto groups = static_cast<int64_t>(kept.size());
    const bool ranked = groups > grid.groups_kept;
    if (ranked && (std::set(kept.begin(), kept.end()).size() != 1 || kept.front() < 2))
      return fail("split.group_sizes",
                  fmt::format("{}: layer {} keeps {} experts of its router's groups of {}", what,
                              layer, fmt::join(kept, ", "), grid.experts / grid.groups),
                  fmt::format("keep equally many of each group, two at least, or experts of only "
                              "{} groups, of which a token chooses freely",
                              grid.groups_kept));
    kinds.insert(ranked ? kept : std::vector<int64_t>());
  }
  if (kinds.size() == 1) return std::max<int64_t>(1, std::ssize(*kinds.begin()));
  return fail("split.group_sizes",
              fmt::format("{} keeps experts of different numbers of groups in its layers", what),
              "keep experts of equally many groups in every layer");
}

// llama.cpp takes the number of experts for a sign of the one Llama 4 without QK-norm.
Status check_llama4(int64_t count, const MoeSource& source, const std::string& what) {
  const bool same = (count == kLlama4WithoutNorm) == (source.grid.experts == kLlama4WithoutNorm);
  if (source.arch != "llama4" || same) return {};
  return fail(
      "split.llama4",
      fmt::format("{} would have {} experts of {}: llama.cpp leaves out the norm of queries "
                  "and keys of Llama 4 by its {} experts",
                  what, count, source.grid.experts, kLlama4WithoutNorm),
      "llama.cpp cannot run a part of this model's experts");
}

Result<SplitNode> node_of(const ExpertGroup& group, const MoeSource& source) {
  const std::string what = words_of(group);
  SplitNode node{group.name, whole_sets(group, source)};
  MOEC_ASSIGN(node.count, equal_count(node.experts, what));
  MOEC_TRY(check_enough(node.experts, source.grid, what));
  MOEC_ASSIGN(node.groups, groups_left(node.experts, source.grid, what));
  MOEC_TRY(check_llama4(node.count, source, what));
  return node;
}

}  // namespace

Result<std::vector<SplitNode>> choose_nodes(const SplitOptions& options, const MoeSource& source) {
  MOEC_ASSIGN(const AskedNodes asked, asked_nodes(options, source.grid));
  MOEC_TRY(refuse_stages(asked, options.place_file));
  std::vector<SplitNode> nodes;
  for (const ExpertGroup& group : asked.groups) {
    MOEC_ASSIGN(SplitNode node, node_of(group, source));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace moec
