#include "frontends/jobs/split/split_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "backends/formats/gguf/block_name.h"
#include "backends/weights/views/scale_blocks.h"
#include "frontends/jobs/split/requested_nodes.h"
#include "ir/base/json.h"

namespace moec {

namespace {

constexpr int64_t kMaxGgufExperts = 1024;    // maximum of llama.cpp
constexpr int64_t kLlama4WithoutNorm = 128;  // experts of the Llama 4 variant without QK-norm

std::string words_of(const ExpertGroup& group) { return fmt::format("node {}", group.name); }

// ---- Requirements on a node
// -----------------------------------------------------------------------

Status refuse_stages(const RequestedNodes& asked, const std::string& file) {
  if (asked.stages.empty()) return {};
  return fail(
      "split.stages",
      fmt::format("the placement has {} stages, but llama.cpp needs all layers, the embedding and "
                  "the head in each node",
                  asked.stages.size()),
      "make a placement without --stages, or split an export of moec, which supports stages",
      {.file = file});
}

// Returns the sets per layer, without wildcards. Layers after the decoder get the experts of the
// decoder's last layer: llama.cpp requires equal counts, and runtimes that run only the decoder do
// not use these layers.
ExpertSets whole_sets(const ExpertGroup& group, const MoeSource& source) {
  std::vector<int64_t> all;
  for (int64_t e = 0; e < source.grid.experts; ++e) all.push_back(e);
  ExpertSets sets = group.experts;
  // try_emplace() keeps the sets that were requested; layers without one have all experts.
  for (const int64_t layer : source.grid.layers) sets.layers.try_emplace(layer, all);
  for (const int64_t layer : source.behind)
    sets.layers[layer] = sets.layers.at(source.grid.layers.back());
  return sets;
}

Result<int64_t> equal_count(const ExpertSets& sets, const std::string& what) {
  // Grouped by count, so that the message can list the layers of each.
  std::map<size_t, std::vector<int64_t>> layers;  // by number of experts
  for (const auto& [layer, experts] : sets.layers) layers[experts.size()].push_back(layer);
  if (layers.size() == 1) {
    const auto count = static_cast<int64_t>(layers.begin()->first);
    if (count <= kMaxGgufExperts) return count;
    return fail("split.counts",
                fmt::format("{} has {} experts per layer, but llama.cpp supports at most {}", what,
                            count, kMaxGgufExperts),
                "spread the experts over more nodes");
  }
  std::vector<std::string> found;
  for (const auto& [count, numbers] : layers)
    found.push_back(fmt::format("{} in layers {}", count, fmt::join(numbers, ",")));
  return fail("split.counts",
              fmt::format("{} has different numbers of experts in its layers, but llama.cpp "
                          "requires equal numbers: {}",
                          what, fmt::join(found, "; ")),
              "give the node the same number of experts in every layer");
}

// Returns the number of experts that a layer keeps per router group, without empty groups.
std::vector<int64_t> kept_of_groups(const std::vector<int64_t>& experts, const ExpertGrid& grid) {
  std::map<int64_t, int64_t> kept;
  // Groups of a router are runs of equal length.
  for (const int64_t expert : experts) ++kept[expert / (grid.experts / grid.groups)];
  std::vector<int64_t> counts;
  for (const auto& [group, count] : kept) counts.push_back(count);
  return counts;
}

// Returns the number of groups of the node's routers. Removes groups without experts, which the
// whole router with masked experts would never keep. Returns 1 if a token would keep all remaining
// groups.
Result<int64_t> groups_left(const ExpertSets& sets, const ExpertGrid& grid,
                            const std::string& what) {
  if (grid.groups == 1) return 1;
  // All layers must agree, because llama.cpp has one number of groups.
  std::set<std::vector<int64_t>> kinds;
  for (const auto& [layer, experts] : sets.layers) {
    const std::vector<int64_t> kept = kept_of_groups(experts, grid);
    const auto groups = static_cast<int64_t>(kept.size());
    // With at most as many groups as a token keeps, no group is ever excluded.
    const bool ranked = groups > grid.groups_kept;
    if (ranked && (std::set(kept.begin(), kept.end()).size() != 1 || kept.front() < 2))
      return fail(
          "split.group_sizes",
          fmt::format("{}: layer {} keeps {} experts of its router's groups of {}", what, layer,
                      fmt::join(kept, ", "), grid.experts / grid.groups),
          fmt::format("keep the same number, at least two, of each group, or keep experts of at "
                      "most {} groups",
                      grid.groups_kept));
    // Layers that keep at most `groups_kept` groups are equivalent, whatever their counts. An empty
    // list stands for them.
    kinds.insert(ranked ? kept : std::vector<int64_t>());
  }
  // An empty list has size 0, which becomes one group.
  if (kinds.size() == 1) return std::max<int64_t>(1, std::ssize(*kinds.begin()));
  return fail("split.group_sizes",
              fmt::format("{} keeps different numbers of router groups in its layers", what),
              "keep experts of the same number of groups in every layer");
}

// llama.cpp identifies the Llama 4 variant without QK-norm by its number of experts.
Status check_llama4(int64_t count, const MoeSource& source, const std::string& what) {
  const bool same = (count == kLlama4WithoutNorm) == (source.grid.experts == kLlama4WithoutNorm);
  if (source.arch != "llama4" || same) return {};
  return fail(
      "split.llama4",
      fmt::format("{} would have {} of {} experts, but llama.cpp omits the QK-norm of Llama 4 for "
                  "exactly {} experts",
                  what, count, source.grid.experts, kLlama4WithoutNorm),
      "keep all experts on each node, or split another model");
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
  MOEC_ASSIGN(const RequestedNodes asked, requested_nodes(options, source.grid));
  MOEC_TRY(refuse_stages(asked, options.place_file));
  std::vector<SplitNode> nodes;
  for (const ExpertGroup& group : asked.groups) {
    MOEC_ASSIGN(SplitNode node, node_of(group, source));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

namespace {

constexpr size_t kFilesOfNode = 3;
constexpr size_t kHeaderFile = 0, kTrunkFile = 1, kExpertsFile = 2;

// ---- Names and keys ----------------------------------------------------------------------------

std::string name_of(const MoeSource& source) {
  return gguf_model_name(std::filesystem::path(source.gguf.values.file()).filename().string());
}

std::vector<GgufEntry> file_entries(const MoeSource& source, size_t file) {
  std::vector<GgufEntry> entries = {{"split.no", static_cast<uint16_t>(file)},
                                    {"split.count", static_cast<uint16_t>(kFilesOfNode)},
                                    {"moec.split.source", source.digest}};
  // llama.cpp reads the alignment from every file with tensors; the header file gets it with the
  // source's keys.
  const auto alignment = source.gguf.values.find<uint32_t>(kGgufAlignmentKey);
  if (alignment && *alignment && file != kHeaderFile)
    entries.push_back({std::string(kGgufAlignmentKey), **alignment});
  return entries;
}

// The source's keys, in the order of the source file.
std::vector<GgufEntry> source_entries(const MoeSource& source) {
  const GgufValues& values = source.gguf.values;
  std::vector<const GgufKeys::value_type*> keys;
  for (const auto& key : values.keys())
    if (!is_split_key(key.first)) keys.push_back(&key);
  // Keys are a map by name; the offset restores the order of the file.
  std::sort(keys.begin(), keys.end(),
            [](const auto* a, const auto* b) { return a->second.offset < b->second.offset; });
  std::vector<GgufEntry> entries;
  for (const auto* key : keys) {
    const GgufValue& value = key->second;
    // The alignment is rewritten as a number, because plan_gguf() must know it.
    if (key->first == kGgufAlignmentKey) {
      entries.push_back({key->first, values.get<uint32_t>(key->first).value_or(kGgufAlignment)});
      continue;
    }
    // Other values are copied as bytes: their types and lengths stay exact.
    entries.push_back({key->first, GgufBytesValue{value.type, value.is_array, value.count,
                                                  std::string(values.bytes(value))}});
  }
  return entries;
}

// Keys of the node's first file: the keys of the source, with adapted counts, and split.*.
std::vector<GgufEntry> node_entries(const MoeSource& source, const SplitNode& node,
                                    size_t tensors) {
  const std::string groups = source.key("expert_group_count");
  std::vector<GgufEntry> entries;
  for (GgufEntry& entry : source_entries(source)) {
    const bool of_groups =
        entry.key == groups || entry.key == source.key("expert_group_used_count");
    // Without groups, both keys are omitted, so that llama.cpp picks from all experts.
    if (of_groups && node.groups == 1 && source.grid.groups > 1) continue;
    if (entry.key == source.key("expert_count")) entry.value = static_cast<uint32_t>(node.count);
    if (entry.key == groups && node.groups > 1) entry.value = static_cast<uint32_t>(node.groups);
    entries.push_back(std::move(entry));
  }
  for (GgufEntry& entry : file_entries(source, kHeaderFile)) entries.push_back(std::move(entry));
  entries.push_back({"split.tensors.count", static_cast<int32_t>(tensors)});
  entries.push_back({"moec.split.node", node.name});
  entries.push_back({"moec.split.experts", to_string(node.experts)});
  return entries;
}

// ---- Tensors -----------------------------------------------------------------------------------

void add_bytes(std::vector<SourceBytes>& payload, const SourceBytes& bytes) {
  if (bytes.bytes == 0) return;
  SourceBytes* last = payload.empty() ? nullptr : &payload.back();
  // Adjacent ranges merge into one read. Scaled ranges also need the same block type.
  const bool same = last && last->file == bytes.file && last->factor == bytes.factor &&
                    (last->factor == 1 || last->type == bytes.type);
  if (same && last->offset + last->bytes == bytes.offset)
    last->bytes += bytes.bytes;
  else
    payload.push_back(bytes);
}

Result<SplitFile> plan_file(const MoeSource& source, std::string name, size_t number,
                            std::vector<GgufTensorInfo> tensors) {
  SplitFile file{std::move(name)};
  MOEC_ASSIGN(file.layout, plan_gguf(file_entries(source, number), std::move(tensors)));
  return file;
}

Result<SplitFile> plan_trunk(const MoeSource& source, std::string name) {
  std::set<size_t> cut;
  for (const CutTensor& tensor : source.experts) cut.insert(tensor.tensor);
  std::vector<GgufTensorInfo> infos;
  std::vector<SourceBytes> payload;
  for (size_t i = 0; i < source.gguf.tensors.size(); ++i) {
    if (cut.contains(i)) continue;
    const GgufTensor& tensor = source.gguf.tensors[i];
    infos.push_back({tensor.name, tensor.type, tensor.dims});
    add_bytes(payload, {tensor.file, tensor.offset, tensor.bytes, tensor.type});
  }
  MOEC_ASSIGN(SplitFile file, plan_file(source, std::move(name), kTrunkFile, std::move(infos)));
  file.payload = std::move(payload);
  return file;
}

// Plans the file with one node's routers and experts.
class ExpertsFile {
 public:
  ExpertsFile(const MoeSource& source, const SplitNode& node, const KeptShares& shares)
      : source_(source), node_(node), shares_(shares) {}

  Result<SplitFile> plan(std::string name) {
    for (const CutTensor& tensor : source_.experts) MOEC_TRY(add(tensor));
    MOEC_ASSIGN(SplitFile file,
                plan_file(source_, std::move(name), kExpertsFile, std::move(infos_)));
    file.payload = std::move(payload_);
    return file;
  }

 private:
  Status add(const CutTensor& part) {
    const GgufTensor& tensor = source_.gguf.tensors[part.tensor];
    Dims dims = tensor.dims;
    dims[part.axis] = node_.count;
    infos_.push_back({tensor.name, tensor.type, std::move(dims)});
    MOEC_ASSIGN(const float factor, factor_of(tensor, part.layer));
    // The experts of a tensor have equal sizes, which expert_axis() has checked.
    const uint64_t bytes = tensor.bytes / static_cast<uint64_t>(source_.grid.experts);
    for (const int64_t expert : node_.experts.layers.at(part.layer))
      add_bytes(payload_, {tensor.file, tensor.offset + static_cast<uint64_t>(expert) * bytes,
                           bytes, tensor.type, factor});
    return {};
  }

  Result<float> factor_of(const GgufTensor& tensor, int64_t layer) const {
    const auto share = shares_.find(layer);
    const std::string down = block_name(layer, "ffn_down_exps.");
    // The bias is added after the matrix, so both carry the factor.
    if (share == shares_.end() || (tensor.name != down + "weight" && tensor.name != down + "bias"))
      return 1.0f;
    if (can_scale(tensor.type)) return static_cast<float>(share->second);
    return fail(
        "split.scale_type",
        fmt::format("moec cannot scale weights of type {}", enum_name(tensor.type)),
        "leave out --profile, or use a file with this tensor in another type, such as q4_k or "
        "q8_0",
        {.tensor = printable(tensor.name), .file = source_.gguf.values.file()});
  }

  const MoeSource& source_;
  const SplitNode& node_;
  const KeptShares& shares_;
  std::vector<GgufTensorInfo> infos_;
  std::vector<SourceBytes> payload_;
};

Result<NodePlan> plan_node(const MoeSource& source, const SplitPlan& plan, const SplitNode& node,
                           const KeptShares& shares) {
  const std::string name = name_of(source);
  NodePlan planned{.node = node, .kept_share = shares};
  MOEC_ASSIGN(
      planned.experts,
      ExpertsFile(source, node, shares).plan(gguf_part_name(name, kExpertsFile, kFilesOfNode)));
  planned.header.name = gguf_part_name(name, kHeaderFile, kFilesOfNode);
  MOEC_ASSIGN(planned.header.layout, plan_header(source, plan, planned));
  // The header contains the vocabulary; write_header() plans it again for one node.
  planned.header.layout.header.clear();
  planned.header.layout.header.shrink_to_fit();
  return planned;
}

}  // namespace

uint64_t SplitPlan::unique_bytes() const {
  uint64_t bytes = trunk.layout.file_bytes;
  for (const NodePlan& node : nodes)
    bytes += node.header.layout.file_bytes + node.experts.layout.file_bytes;
  return bytes;
}

Result<GgufLayout> plan_header(const MoeSource& source, const SplitPlan& plan,
                               const NodePlan& node) {
  // split.tensors.count covers all files of the node.
  const size_t tensors = plan.trunk.layout.tensors.size() + node.experts.layout.tensors.size();
  return plan_gguf(node_entries(source, node.node, tensors), {});
}

Result<KeptShares> kept_shares(const ExpertProfile& profile, const SplitNode& node,
                               const ExpertGrid& grid, const std::string& file) {
  KeptShares shares;
  for (const LayerProfile& layer : profile.layers) {
    const std::vector<int64_t>& kept = node.experts.layers.at(layer.layer);
    // A node with all experts of the layer keeps the whole mass.
    if (std::ssize(kept) == grid.experts) continue;
    const double all = std::accumulate(layer.mass.begin(), layer.mass.end(), 0.0);
    // Layers without measured mass fail below, because `left` stays 0.
    double left = 0;
    for (const int64_t expert : kept)
      if (!layer.mass.empty()) left += layer.mass[static_cast<size_t>(expert)];
    if (left <= 0)
      return fail(
          "split.no_mass",
          fmt::format("the profile has no routing weights for the experts of node {} in layer {}",
                      node.name, layer.layer),
          "run moec analyze on this model with more text", {.file = file});
    shares[layer.layer] = left / all;
  }
  return shares;
}

Result<SplitPlan> plan_split(const MoeSource& source, const std::vector<SplitNode>& nodes,
                             const std::vector<KeptShares>& shares) {
  const std::string name = name_of(source);
  SplitPlan plan;
  MOEC_ASSIGN(plan.trunk, plan_trunk(source, gguf_part_name(name, kTrunkFile, kFilesOfNode)));
  // The trunk comes first: plan_header() needs its number of tensors.
  for (size_t i = 0; i < nodes.size(); ++i) {
    MOEC_ASSIGN(NodePlan node, plan_node(source, plan, nodes[i], shares[i]));
    plan.nodes.push_back(std::move(node));
  }
  return plan;
}

}  // namespace moec
