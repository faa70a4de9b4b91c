#include "frontends/jobs/check/check_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "frontends/jobs/check/check_folder.h"
#include "frontends/jobs/check/check_gguf.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr const char* kIndex = "split.json";
constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;

// Checks that the index describes a finished split whose nodes all exist.
Status check_finished(const std::string& folder) {
  const std::string path = folder + "/" + kIndex;
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxIndexBytes));
  const JsonReport report(
      text, path, JsonCodes::all_as("check.split_unfinished", "run moec split --force again"));
  MOEC_ASSIGN(const JsonValue value, report.parse({.bytes = kMaxIndexBytes}));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  bool finished = false;
  MOEC_TRY(fields.boolean("finished", finished));
  if (!finished) return fields.bad("finished", "is false, because the split was interrupted");
  return fields.each("nodes", [&](JsonFields& node) -> Status {
    std::string name;
    MOEC_TRY(node.text("name", name));
    // A node without a manifest is missing or unfinished.
    if (has_manifest(folder + "/" + name)) return {};
    return fail("check.node_missing",
                fmt::format("{} lists node {}, which is not an export", kIndex, name),
                "split the export again", {.file = folder});
  });
}

// Visits the files of shards and tables, which nodes share with the export.
template <class Visit>
void for_each_shared_file(const Manifest& manifest, Visit visit) {
  if (manifest.has_embedding()) visit(manifest.embedding.file);
  if (manifest.rope) visit(manifest.rope->table.file);
  for (const manifest::Shard& shard : manifest.shards) {
    for (const manifest::Width& width : shard.widths) visit(width.file);
    for (const manifest::FileRef& file : shard.data) visit(file);
  }
}

class Together {
 public:
  Together(const std::vector<CheckedNode>& nodes, std::string folder)
      : nodes_(nodes), folder_(std::move(folder)) {}

  // Stops at the first foreign folder: with another model, coverage has no meaning.
  Diagnostics run() {
    for (const CheckedNode& node : nodes_)
      if (!belongs(node.report->manifest)) return std::move(findings_);
    // All nodes have the same model, so the first one gives the number of layers.
    for (int64_t layer = 0; layer < first().model.layers; ++layer) check_layer(layer);
    return std::move(findings_);
  }

 private:
  const Manifest& first() const { return nodes_.front().report->manifest; }

  void find(std::string code, std::string cause, std::string next) {
    findings_.push_back(
        {Severity::error, std::move(code), std::move(cause), std::move(next), {.file = folder_}});
  }

  bool belongs(const Manifest& manifest) {
    // Ignores the masks, which differ because nodes list only their own layers.
    manifest::Build build = manifest.build;
    build.expert_mask = first().build.expert_mask;
    if (manifest.node && manifest.model == first().model && build == first().build &&
        has_same_files(manifest))
      return true;
    find("check.other_model",
         manifest.node ? fmt::format("node {} is from a different export than node {}",
                                     manifest.node->name, first().node->name)
                       : "a folder contains an export that is not a node of a split",
         "remove folders that are not part of the split, or split again");
    return false;
  }

  // Checks that files with the same path are equal on all nodes: trunk files and replicated
  // experts.
  bool has_same_files(const Manifest& manifest) {
    bool same = true;
    for_each_shared_file(manifest, [&](const manifest::FileRef& file) {
      // emplace() keeps the digest of the first node that has the file, and the others are compared
      // with it.
      same = same && digests_.emplace(file.path, file.digest).first->second == file.digest;
    });
    return same;
  }

  void check_layer(int64_t layer) {
    std::set<int64_t> held;
    int64_t nodes = 0, experts = 0;
    for (const CheckedNode& node : nodes_) {
      const Manifest& manifest = node.report->manifest;
      // With stages, a node has only the layers of its stage.
      if (layer < manifest.first_layer() || layer >= manifest.end_layer()) continue;
      ++nodes;
      const ExpertGrid grid = expert_grid(manifest);
      // binary_search() requires the ascending order in which expert_grid() lists layers.
      if (!std::binary_search(grid.layers.begin(), grid.layers.end(), layer)) continue;
      // Stays 0 for a dense layer, for which no expert can be missing.
      experts = grid.experts;
      // The sets omit layers whose experts are all on the node; has() is true for such layers.
      const ExpertSets sets = node_experts_of(manifest).value_or(ExpertSets());
      for (int64_t e = 0; e < experts; ++e)
        if (sets.has(layer, e)) held.insert(e);
    }
    if (nodes == 0)
      find("check.uncovered", fmt::format("layer {} is on no node", layer),
           "split the export again");
    ExpertSets missing;
    for (int64_t e = 0; e < experts; ++e)
      if (!held.contains(e)) missing.layers[layer].push_back(e);
    if (!missing.layers.empty())
      find("check.uncovered", fmt::format("experts {} are on no node", to_string(missing)),
           "add the missing node, or split again without --allow-uncovered and --expert-list");
  }

  const std::vector<CheckedNode>& nodes_;
  const std::string folder_;
  std::map<std::string, std::string> digests_;  // by path in a node
  Diagnostics findings_;
};

// Replaces the total of each node's progress by that of all nodes.
CheckOptions with_common_total(const CheckOptions& options,
                               const std::vector<std::string>& folders) {
  CheckOptions common = options;
  if (!options.progress) return common;
  uint64_t total = 0;
  for (const std::string& folder : folders)
    // check_folder() reports the errors of the manifest.
    if (const auto manifest = read_manifest(folder))
      total += checked_bytes(*manifest, options.digests);
  common.progress = [progress = options.progress, total](uint64_t bytes, uint64_t,
                                                         const std::string& part) {
    progress(bytes, total, part);
  };
  return common;
}

}  // namespace

bool SplitCheck::passed() const {
  return !has_error(findings) && std::none_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return has_error(node.report->findings);
  });
}

bool is_split_folder(const std::string& folder) {
  // The folder of a split has an index but no manifest; each node has a manifest.
  return !has_manifest(folder) && file_exists(folder + "/" + kIndex);
}

Result<SplitCheck> check_split(const std::string& folder, const CheckOptions& options) {
  // Tries a split of GGUF files first, because its nodes have no manifests.
  auto of_gguf = check_gguf_split(folder, options);
  if (of_gguf && *of_gguf) return *std::move(*of_gguf);
  SplitCheck check;
  // An unfinished split is a finding, so that its nodes are still checked.
  if (const Status finished = check_finished(folder); !finished) check.findings = finished.error();
  const std::vector<std::string> folders = exports_in(folder);
  const CheckOptions of_node = with_common_total(options, folders);
  for (const std::string& path : folders) {
    MOEC_ASSIGN(auto report, check_folder(path, of_node));
    check.nodes.push_back({path, std::move(report)});
  }
  // If no node is found, the findings of check_finished() explain the cause better.
  if (check.nodes.empty() && has_error(check.findings)) return fail(std::move(check.findings));
  if (check.nodes.empty())
    return fail("check.no_nodes", "no node of the split is an export",
                "run moec split --force again", {.file = folder});
  const Diagnostics together = Together(check.nodes, folder).run();
  check.findings.insert(check.findings.end(), together.begin(), together.end());
  return check;
}

}  // namespace moec
