#include "frontends/jobs/split/split_update.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/files/digest.h"
#include "backends/manifest/check_parts.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "ir/experts/expert_difference.h"

namespace moec {
namespace {

bool same_file(const FileIdentity& a, const FileIdentity& b) {
  return a.device == b.device && a.inode == b.inode;
}

// Compares a file with the digest in its manifest. A file of the export is not read: its size was
// compared, as in a split without an earlier one.
Status check_contents(const std::string& path, const manifest::FileRef& file,
                      const std::string& source) {
  MOEC_ASSIGN(const RegularFile opened, RegularFile::open(path));
  MOEC_ASSIGN(const RegularFile original, RegularFile::open(source + "/" + file.path));
  if (same_file(opened.identity(), original.identity())) return {};
  MOEC_ASSIGN(const std::string digest, digest_file(opened));
  if (digest == file.digest) return {};
  return fail("digest.differs", "the file differs from the manifest of its node");
}

// Returns the experts per layer of a node; no experts in layers of other stages.
ExpertSets sets_of_node(const Manifest& node, const ExpertSets& held, const ExpertGrid& grid) {
  ExpertSets sets;
  for (const int64_t layer : grid.layers) {
    std::vector<int64_t>& experts = sets.layers[layer];
    if (layer < node.first_layer() || layer >= node.end_layer()) continue;
    for (int64_t e = 0; e < grid.experts; ++e)
      if (held.has(layer, e)) experts.push_back(e);
  }
  return sets;
}

}  // namespace

Result<EarlierSplit> EarlierSplit::open(const std::string& folder, const Manifest& whole) {
  const auto error = [&](std::string cause) {
    return fail("split.update", std::move(cause),
                "pass the folder of an earlier split of the export", {.file = folder});
  };
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  MOEC_ASSIGN(const std::vector<FolderEntry> entries, opened.entries());
  EarlierSplit earlier;
  earlier.folder_ = folder;
  const ExpertGrid grid = expert_grid(whole);
  for (const FolderEntry& entry : entries) {
    if (!entry.is_folder || !has_manifest(opened.path_of(entry.name))) continue;
    MOEC_ASSIGN(Manifest node, read_manifest(opened.path_of(entry.name)));
    if (!node.node) return error(fmt::format("{} is an export, but not a node", entry.name));
    if (node.model.family != whole.model.family || node.model.layers != whole.model.layers ||
        expert_grid(node).experts != grid.experts)
      return error(fmt::format("node {} is of another model", entry.name));
    manifest::for_each_file(node, [&](const manifest::FileRef& file, const std::string&) {
      earlier.files_[file.digest].push_back(entry.name + "/" + file.path);
    });
    earlier.nodes_.emplace(entry.name, std::move(node));
  }
  if (earlier.nodes_.empty()) return error("the folder has no nodes of an export");
  return earlier;
}

SplitUpdate EarlierSplit::plan(const std::vector<ExportNode>& nodes, const Manifest& whole) const {
  const ExpertGrid grid = expert_grid(whole);
  SplitUpdate update{.folder = folder_};
  std::set<std::string> names;
  for (const ExportNode& node : nodes) {
    names.insert(node.name);
    const auto old = nodes_.find(node.name);
    const ExpertSets now = sets_of_node(node.manifest, node.experts, grid);
    ExpertSets before = no_experts(grid);
    NodeUpdate change{.name = node.name, .is_new = old == nodes_.end(), .changed = true};
    if (!change.is_new) {
      // read_manifest() has checked the text of the sets.
      before = sets_of_node(old->second, *node_experts_of(old->second), grid);
      Manifest manifest = old->second;
      // The digest of manifest.bin is set when the manifest is written.
      manifest.binary.reset();
      change.changed = manifest != node.manifest;
    }
    change.gained = in_first_only(now, before, grid);
    change.lost = in_first_only(before, now, grid);
    update.nodes.push_back(std::move(change));
    for (const auto* files : {&node.trunk, &node.of_experts})
      for (const manifest::FileRef& file : *files)
        ++(files_.contains(file.digest) ? update.kept : update.linked);
    update.bytes_written += node.manifest_bytes;
  }
  for (const auto& [name, manifest] : nodes_)
    if (!names.contains(name)) update.removed.push_back(name);
  return update;
}

std::optional<OutputPath> EarlierSplit::find(const manifest::FileRef& file,
                                             const std::string& source, Diagnostics& notes) {
  const auto found = files_.find(file.digest);
  if (found == files_.end()) return std::nullopt;
  std::vector<std::string>& paths = found->second;
  while (!paths.empty()) {
    OutputPath path{folder_, paths.front(), {}};
    if (verified_.contains(file.digest)) return path;
    const Status same = check_contents(path.text(), file, source);
    if (same) {
      verified_.insert(file.digest);
      return path;
    }
    notes.push_back({Severity::note,
                     "split.update_changed",
                     fmt::format("the file is not reused: {}", same.error().front().cause),
                     {},
                     {.file = path.text()}});
    paths.erase(paths.begin());
  }
  return std::nullopt;
}

nlohmann::ordered_json update_json(const SplitUpdate& update) {
  auto nodes = nlohmann::ordered_json::array();
  for (const NodeUpdate& node : update.nodes)
    nodes.push_back({{"name", node.name},
                     {"new", node.is_new},
                     {"changed", node.changed},
                     {"gained", to_string(node.gained)},
                     {"lost", to_string(node.lost)}});
  return {{"folder", update.folder},
          {"kept", update.kept},
          {"linked", update.linked},
          {"copied", update.copied},
          {"bytes_written", update.bytes_written},
          {"removed", update.removed},
          {"nodes", std::move(nodes)}};
}

}  // namespace moec
