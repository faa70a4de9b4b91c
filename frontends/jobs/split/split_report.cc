#include "frontends/jobs/split/split_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/formats/gguf/gguf_file.h"
#include "backends/weights/views/scale_blocks.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {

namespace {

// A few MiB, so that progress and interruption are frequent and memory stays small.
constexpr uint64_t kPieceBytes = uint64_t{2} << 20;

// Reads the source's files, keeping only one open at a time.
class SourceReader {
 public:
  explicit SourceReader(const Gguf& gguf) : gguf_(gguf) {}

  Status read(const SourceBytes& range, std::span<char> bytes) {
    // Keeps the file open, because consecutive ranges mostly lie in the same file.
    if (!file_ || open_ != range.file) MOEC_TRY(open(range.file));
    return file_->read_into(range.offset, bytes);
  }

  // Checks that no file has changed since its header was read.
  Status check_unchanged() {
    for (uint32_t file = 0; file < gguf_.files.size(); ++file) MOEC_TRY(open(file));
    return {};
  }

 private:
  Status open(uint32_t file) {
    // Checks the previous file before it is closed, because it is not read again.
    if (file_) MOEC_TRY(check_same(*file_, gguf_.files[open_]));
    MOEC_ASSIGN(file_, RegularFile::open(gguf_.files[file].path));
    open_ = file;
    return check_same(*file_, gguf_.files[file]);
  }

  static Status check_same(const RegularFile& file, const WeightFile& wanted) {
    // Without a stored identity, the file is compared with itself, which finds no change.
    const auto change = change_between(wanted.identity.value_or(file.identity()), file.identity());
    const auto later = change ? Status() : file.check_unchanged();
    if (!change && later) return {};
    return fail("split.source_changed", change ? *change : later.error().front().cause,
                "run the command again without changing the model at the same time",
                {.file = wanted.path});
  }

  const Gguf& gguf_;
  std::optional<RegularFile> file_;
  uint32_t open_ = 0;
};

class SplitWriter {
 public:
  SplitWriter(const SplitOptions& options, const MoeSource& source, const SplitPlan& plan)
      : options_(options), source_(source), plan_(plan), reader_(source.gguf) {}

  Result<WrittenSplit> run() {
    // The node's first file is written last, so that llama.cpp cannot load an incomplete node.
    for (const NodePlan& node : plan_.nodes) {
      MOEC_TRY(write(node.node.name, node.experts));
      MOEC_TRY(share_trunk(node.node.name));
      MOEC_TRY(write_header(node));
      MOEC_TRY(sync_folder(options_.out + "/" + node.node.name));
    }
    // Checks all files at the end, because earlier files may have changed meanwhile.
    MOEC_TRY(reader_.check_unchanged());
    return std::move(written_);
  }

 private:
  static std::string path_of(const std::string& node, const SplitFile& file) {
    return fmt::format("{}/{}", node, file.name);
  }

  // Writes the trunk of the first node. For other nodes, creates a hard link to that file, or a
  // copy if the file system has no hard links.
  Status share_trunk(const std::string& node) {
    const std::string& first = plan_.nodes.front().node.name;
    if (node != first) {
      const std::string from = path_of(first, plan_.trunk), to = path_of(node, plan_.trunk);
      MOEC_ASSIGN(const bool linked, link_files({options_.out, from}, {options_.out, to}));
      if (linked) {
        // A link has the digest of the file that it names.
        written_.digests[to] = written_.digests[from];
        return {};
      }
      written_.trunk_linked = false;
    }
    return write(node, plan_.trunk);
  }

  Status write_header(const NodePlan& node) {
    SplitFile header{node.header.name};
    MOEC_ASSIGN(header.layout, plan_header(source_, plan_, node));
    return write(node.node.name, header);
  }

  Status write(const std::string& node, const SplitFile& file) {
    const std::string path = path_of(node, file);
    MOEC_ASSIGN(GgufFile out, GgufFile::create({options_.out, path}, file.layout));
    for (const SourceBytes& range : file.payload) MOEC_TRY(copy(range, out, path));
    MOEC_ASSIGN(OutputFile finished, std::move(out).finish());
    MOEC_TRY(finished.sync());
    MOEC_TRY(finished.publish());
    written_.digests[path] = finished.digest();
    return {};
  }

  Status copy(SourceBytes range, GgufFile& out, const std::string& path) {
    const auto block = static_cast<uint64_t>(block_format(range.type).bytes);
    // Whole blocks, because scale_blocks() cannot scale a part of a block.
    const uint64_t most = kPieceBytes / block * block;
    while (range.bytes > 0) {
      const uint64_t size = std::min(range.bytes, most);
      buffer_.resize(std::max<size_t>(buffer_.size(), size));
      const std::span<char> piece(buffer_.data(), size);
      MOEC_TRY(reader_.read(range, piece));
      if (range.factor != 1) scale_blocks(range.type, std::as_writable_bytes(piece), range.factor);
      MOEC_TRY(out.write(std::as_bytes(piece)));
      range.offset += size;
      range.bytes -= size;
      MOEC_TRY(advance(size, path));
    }
    return {};
  }

  Status advance(uint64_t bytes, const std::string& path) {
    if (options_.progress) options_.progress(bytes, plan_.unique_bytes(), path);
    if (!options_.stop || !options_.stop()) return {};
    return fail(kSplitInterrupted, "the split was stopped",
                "run the same command again: it starts over", {.file = options_.out});
  }

  const SplitOptions& options_;
  const MoeSource& source_;
  const SplitPlan& plan_;
  SourceReader reader_;
  std::string buffer_;
  WrittenSplit written_;
};

}  // namespace

Result<WrittenSplit> write_split(const SplitOptions& options, const MoeSource& source,
                                 const SplitPlan& plan) {
  return SplitWriter(options, source, plan).run();
}

NodeRouting SplitReport::routing_of(const NodePlan& node) const {
  // A node with all experts equals the whole model, whatever the routing.
  if (node.node.count == experts) return NodeRouting::whole;
  if (!node.kept_share.empty()) return NodeRouting::compensated;
  // kBy is indexed by KeptRouting.
  constexpr NodeRouting kBy[] = {NodeRouting::masked, NodeRouting::inflated, NodeRouting::unknown};
  return kBy[static_cast<size_t>(routing)];
}

using nlohmann::ordered_json;

namespace {

ordered_json files_json(const SplitReport& report, const NodePlan& node) {
  ordered_json files = ordered_json::array();
  for (const SplitFile* file : {&node.header, &report.plan.trunk, &node.experts}) {
    const std::string path = fmt::format("{}/{}", node.node.name, file->name);
    ordered_json json = {{"path", path}, {"bytes", file->layout.file_bytes}};
    const auto digest = report.written.digests.find(path);
    // Digests exist only after writing.
    if (digest != report.written.digests.end()) json["xxh3"] = digest->second;
    files.push_back(std::move(json));
  }
  return files;
}

ordered_json node_json(const SplitReport& report, const NodePlan& node) {
  ordered_json json = {{"name", node.node.name},
                       {"experts", to_string(node.node.experts)},
                       {"experts_per_layer", node.node.count},
                       {"routing", enum_name(report.routing_of(node))},
                       {"bytes", report.plan.bytes_of(node)},
                       {"files", files_json(report, node)}};
  if (node.node.groups > 1) json["groups"] = node.node.groups;
  for (const auto& [layer, share] : node.kept_share)
    json["kept_share"].push_back({{"layer", layer}, {"share", share}});
  return json;
}

ordered_json nodes_json(const SplitReport& report) {
  ordered_json nodes = ordered_json::array();
  for (const NodePlan& node : report.plan.nodes) nodes.push_back(node_json(report, node));
  return nodes;
}

// Fields common to the report and the index.
ordered_json common_json(const SplitReport& report) {
  return {{"architecture", report.arch},
          {"source_digest", report.digest},
          {"experts", report.experts},
          {"trunk_bytes", report.plan.trunk.layout.file_bytes},
          {"unique_bytes", report.plan.unique_bytes()},
          {"nodes", nodes_json(report)}};
}

}  // namespace

ordered_json split_json(const SplitReport& report, double seconds) {
  ordered_json fields = {{"source", report.source},
                         {"out", report.out},
                         {"dry_run", report.dry_run},
                         {"seconds", seconds}};
  if (!report.dry_run) fields["trunk_linked"] = report.written.trunk_linked;
  fields.update(common_json(report));
  return report_json(true, fields, report.notes);
}

std::string split_index_text(const SplitReport& report, bool finished) {
  ordered_json index = {{"format", "moec.split"}, {"version", 1}, {"finished", finished}};
  index.update(common_json(report));
  return json_text(index) + "\n";
}

}  // namespace moec
