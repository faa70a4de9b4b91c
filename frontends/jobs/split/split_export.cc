#include "frontends/jobs/split/split_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/file_names.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"
#include "frontends/jobs/split/moe_source.h"
#include "frontends/jobs/split/split_folder.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"
#include "ir/model/model_experts.h"

namespace moec {

uint64_t ExportSplit::trunk_bytes() const {
  // Nodes share trunk files by path, so a map counts each once, also across stages.
  std::map<std::string, int64_t> files;
  for (const ExportNode& node : nodes)
    for (const manifest::FileRef& file : node.trunk) files[file.path] = file.bytes;
  uint64_t bytes = 0;
  for (const auto& [path, size] : files) bytes += static_cast<uint64_t>(size);
  return bytes;
}

uint64_t ExportSplit::unique_bytes() const {
  uint64_t bytes = trunk_bytes();
  for (const ExportNode& node : nodes) bytes += node.expert_bytes() + node.manifest_bytes;
  return bytes;
}

namespace {

namespace fs = std::filesystem;

// Copies in pieces, so that memory does not depend on the size of a shard.
constexpr size_t kCopiedAtOnce = size_t{2} << 20;

Status check_outside(const std::string& source, const std::string& out, const char* what) {
  std::error_code error;
  const fs::path a = fs::weakly_canonical(source, error), b = fs::weakly_canonical(out, error);
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  // The paths differ at some component, so neither contains the other.
  if (in_a != a.end() && in_b != b.end()) return {};
  return fail("split.out_has_source", fmt::format("the output folder overlaps with {}", what),
              "pass another folder with --out", {.file = out});
}

std::vector<manifest::FileRef> files_of_node(const ExportNode& node) {
  std::vector<manifest::FileRef> files = node.trunk;
  files.insert(files.end(), node.of_experts.begin(), node.of_experts.end());
  return files;
}

// The manifests of a node: its own, and that of the whole export, which states the places of other
// nodes' experts in the order of additions (expert_peers.h).
std::vector<std::string> manifest_files() {
  std::vector<std::string> files;
  for (const std::string_view name : {kManifestJson, kManifestBin}) {
    files.push_back(fmt::format("{}/{}", kWholeFolder, name));
    files.emplace_back(name);
  }
  return files;
}

OutFiles files_of_split(const ExportSplit& split) {
  // The index belongs to the split, too, so that --force may replace it.
  OutFiles files = {kSplitIndex};
  for (const ExportNode& node : split.nodes) {
    for (const std::string& name : manifest_files()) files.insert(node.name + "/" + name);
    for (const manifest::FileRef& file : files_of_node(node))
      files.insert(node.name + "/" + file.path);
  }
  return files;
}

// ---- Writing -----------------------------------------------------------------------------------

class NodeWriter {
 public:
  // `earlier` may be null.
  NodeWriter(const SplitOptions& options, const Manifest& whole, ExportSplit& split,
             EarlierSplit* earlier)
      : options_(options), whole_(whole), split_(split), earlier_(earlier) {
    if (split_.update) split_.update->kept = split_.update->linked = 0;
  }

  Status run() {
    for (ExportNode& node : split_.nodes) {
      // The manifest comes last: a folder without one is not an export, so nothing runs an
      // incomplete node.
      for (const manifest::FileRef& file : files_of_node(node)) MOEC_TRY(share(node.name, file));
      const std::string folder = options_.out + "/" + node.name;
      const std::string whole = fmt::format("{}/{}", folder, kWholeFolder);
      MOEC_TRY(create_folder(whole));
      Manifest copy = whole_;
      MOEC_TRY(write_manifest(copy, whole));
      MOEC_TRY(write_manifest(node.manifest, folder));
      MOEC_TRY(sync_folder(folder));
    }
    return {};
  }

 private:
  Status share(const std::string& node, const manifest::FileRef& file) {
    // Compares sizes only: digests would require reading every linked file.
    MOEC_TRY(check_size(file));
    const OutputPath from{options_.source, file.path}, to{options_.out, node + "/" + file.path};
    MOEC_ASSIGN(const bool kept, keep(file, to));
    if (kept) return advance(static_cast<uint64_t>(file.bytes), to.name);
    MOEC_ASSIGN(const bool linked, link_files(from, to));
    // Hard links fail across file systems, and some file systems do not support them.
    if (!linked) MOEC_TRY(copy(from, to, file.digest));
    split_.linked &= linked;
    if (split_.update) count(file, linked);
    return advance(static_cast<uint64_t>(file.bytes), to.name);
  }

  // Links a file of the earlier split. Returns false if it has none with these contents.
  Result<bool> keep(const manifest::FileRef& file, const OutputPath& to) {
    if (!earlier_) return false;
    const auto old = earlier_->find(file, options_.source, split_.notes);
    if (!old) return false;
    MOEC_ASSIGN(const bool linked, link_files(*old, to));
    split_.update->kept += linked ? 1 : 0;
    return linked;
  }

  void count(const manifest::FileRef& file, bool linked) {
    ++(linked ? split_.update->linked : split_.update->copied);
    if (!linked) split_.update->bytes_written += static_cast<uint64_t>(file.bytes);
  }

  Status check_size(const manifest::FileRef& file) const {
    const std::string path = options_.source + "/" + file.path;
    MOEC_ASSIGN(const RegularFile opened, RegularFile::open(path));
    if (opened.size() == static_cast<uint64_t>(file.bytes)) return {};
    return fail(
        "split.source_changed",
        fmt::format("the file has {} bytes, but the manifest says {}", opened.size(), file.bytes),
        "run moec check to find other changes, and export the model again", {.file = path});
  }

  Status copy(const OutputPath& from, const OutputPath& to, const std::string& digest) {
    MOEC_ASSIGN(const RegularFile source, RegularFile::open(from.text()));
    // Reserves the size, so that a full disk is noticed before the copy.
    MOEC_ASSIGN(OutputFile out, OutputFile::create(to, source.size()));
    buffer_.resize(kCopiedAtOnce);
    for (uint64_t done = 0; done < source.size();) {
      const auto size = std::min<uint64_t>(source.size() - done, buffer_.size());
      const std::span<char> piece(buffer_.data(), size);
      MOEC_TRY(source.read_into(done, piece));
      MOEC_TRY(out.write(std::as_bytes(piece)));
      done += size;
    }
    MOEC_TRY(source.check_unchanged());
    MOEC_TRY(out.sync());
    // OutputFile has computed the digest, so the check needs no second read.
    if (out.digest() != digest)
      return fail("split.source_changed", "the file's digest differs from its manifest",
                  "run moec check to find other changes, and export the model again",
                  {.file = from.text()});
    return out.publish();
  }

  Status advance(uint64_t bytes, const std::string& path) {
    if (options_.progress) options_.progress(bytes, all_, path);
    if (!options_.stop || !options_.stop()) return {};
    return fail(kSplitInterrupted, "the split was stopped",
                "run the same command again: it starts over", {.file = options_.out});
  }

  uint64_t count_all() const {
    uint64_t bytes = 0;
    // Manifests are not shared files; NodeWriter does not report them as progress.
    for (const ExportNode& node : split_.nodes) bytes += node.bytes() - node.manifest_bytes;
    return bytes;
  }

  const SplitOptions& options_;
  const Manifest& whole_;
  ExportSplit& split_;
  EarlierSplit* earlier_;
  const uint64_t all_ = count_all();
  std::vector<char> buffer_;
};

Status write_split_folder(const SplitOptions& options, const Manifest& whole, ExportSplit& split,
                          EarlierSplit* earlier) {
  MOEC_TRY(check_outside(options.source, options.out, "the export"));
  // With --force, the earlier split would be removed before its files are linked.
  if (earlier) MOEC_TRY(check_outside(options.update, options.out, "the folder of --update"));
  MOEC_TRY(create_folder(options.out));
  // The lock precedes make_room(), so that two splits do not remove each other's files.
  MOEC_ASSIGN(const FolderLock lock, FolderLock::take(options.out));
  MOEC_TRY(make_room(options.out, files_of_split(split), options.force));
  const OutputPath index{options.out, kSplitIndex};
  // Written before all other files, because an interrupted split is recognised by its index.
  MOEC_TRY(write_file(index, export_index_text(split, false)));
  MOEC_TRY(NodeWriter(options, whole, split, earlier).run());
  // Files must be durable before the index says that the split is finished.
  MOEC_TRY(sync_folder(options.out));
  MOEC_TRY(write_file(index, export_index_text(split, true)));
  return sync_folder(options.out);
}

// ---- Notes -------------------------------------------------------------------------------------

void add_note(ExportSplit& split, std::string code, std::string cause, const std::string& file) {
  split.notes.push_back({Severity::note, std::move(code), std::move(cause), {}, {.file = file}});
}

void note_weights(ExportSplit& split, const Manifest& whole, const SplitOptions& options) {
  // Masked routers keep shares of all experts, which is correct but not normalised.
  const auto shares = [](const manifest::Shard& shard) {
    return shard.routing && kept_routing(shard.routing->router, false) == KeptRouting::inflated;
  };
  if (std::any_of(whole.shards.begin(), whole.shards.end(), shares))
    add_note(split, "split.not_renormalised",
             fmt::format("routing weights of {} remain shares of all experts and are not "
                         "normalised over the experts of a node",
                         split.family),
             options.source);
  if (!options.profile.empty())
    add_note(split, "split.no_correction",
             "the profile is not used: routers of an export are masked and need no correction",
             options.profile);
}

}  // namespace

bool is_export(const std::string& path) { return has_manifest(path); }

Result<ExportSplit> split_export(const SplitOptions& options) {
  MOEC_ASSIGN(const Manifest whole, read_manifest(options.source));
  MOEC_TRY(require_graphs(whole, options.source));
  // A node lacks shards of other nodes, so it cannot be split again.
  if (whole.node)
    return fail("split.source",
                fmt::format("the folder is node {} of a split: {}", whole.node->name,
                            node_text(*whole.node)),
                "split the original export", {.file = options.source});
  ExportSplit split{options.source, options.out, whole.model.family};
  split.dry_run = options.dry_run;
  MOEC_ASSIGN(split.nodes, export_nodes(options, whole));
  split.experts = expert_grid(whole).experts;
  note_weights(split, whole, options);
  std::optional<EarlierSplit> earlier;
  if (!options.update.empty()) {
    MOEC_ASSIGN(earlier, EarlierSplit::open(options.update, whole));
    split.update = earlier->plan(split.nodes, whole);
  }
  if (options.dry_run) return split;
  MOEC_TRY(write_split_folder(options, whole, split, earlier ? &*earlier : nullptr));
  if (!split.linked)
    add_note(split, "split.copied",
             "the file system has no hard links between the two folders: each node has copies",
             options.out);
  return split;
}

using nlohmann::ordered_json;

namespace {

ordered_json files_json(const ExportNode& node) {
  ordered_json files = ordered_json::array();
  for (const auto* list : {&node.trunk, &node.of_experts})
    for (const manifest::FileRef& file : *list)
      files.push_back(
          {{"path", node.name + "/" + file.path}, {"bytes", file.bytes}, {"xxh3", file.digest}});
  // The manifests have no digest here: they are written after the index lists them.
  for (const std::string& name : manifest_files())
    files.push_back({{"path", node.name + "/" + name}});
  return files;
}

ordered_json node_json(const ExportNode& node) {
  const manifest::Node& place = *node.manifest.node;
  return {{"name", node.name},
          {"stage", place.stage},
          {"layers", fmt::format("{}-{}", place.first_layer, node.manifest.end_layer() - 1)},
          {"experts", to_string(node.experts)},
          {"expert_bytes", node.expert_bytes()},
          {"manifest_bytes", node.manifest_bytes},
          {"bytes", node.bytes()},
          {"files", files_json(node)}};
}

ordered_json split_fields(const ExportSplit& split) {
  ordered_json nodes = ordered_json::array();
  for (const ExportNode& node : split.nodes) nodes.push_back(node_json(node));
  return {{"family", split.family},
          {"experts", split.experts},
          {"trunk_bytes", split.trunk_bytes()},
          {"unique_bytes", split.unique_bytes()},
          {"nodes", nodes}};
}

}  // namespace

ordered_json split_json(const ExportSplit& split, double seconds) {
  ordered_json fields = {{"source", split.source},
                         {"out", split.out},
                         {"dry_run", split.dry_run},
                         {"seconds", seconds}};
  if (!split.dry_run) fields["linked"] = split.linked;
  if (split.update) fields["update"] = update_json(*split.update);
  fields.update(split_fields(split));
  return report_json(true, fields, split.notes);
}

std::string export_index_text(const ExportSplit& split, bool finished) {
  // The index has the format of GGUF splits, so make_room() can replace both kinds.
  ordered_json index = {{"format", "moec.split"}, {"version", 1}, {"finished", finished}};
  index.update(split_fields(split));
  return json_text(index) + "\n";
}

}  // namespace moec
