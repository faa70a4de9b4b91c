#include "frontends/jobs/check/check_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "backends/formats/gguf/block_name.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/experts/expert_sets.h"

namespace moec {
namespace {

constexpr const char* kExportAgain = "export the model again";
constexpr const char* kSplitAgain = "run moec split --force again";
constexpr const char* kReportFile = "report.json";
constexpr const char* kIndexFile = "split.json";

void add_findings(const Status& status, Diagnostics& findings) {
  if (!status) findings.insert(findings.end(), status.error().begin(), status.error().end());
}

void find(Diagnostics& findings, std::string code, std::string cause, std::string next,
          Place place) {
  findings.push_back(
      {Severity::error, std::move(code), std::move(cause), std::move(next), std::move(place)});
}

HeldWeights count_held(const Gguf& gguf) {
  HeldWeights held;
  held.files = std::ssize(gguf.files);
  held.tensors = std::ssize(gguf.tensors);
  for (const WeightFile& file : gguf.files) held.bytes += static_cast<int64_t>(file.bytes);
  return held;
}

// ---- Exports -----------------------------------------------------------------------------------

struct ListedTensor {
  std::string type, dims;
  bool operator==(const ListedTensor&) const = default;
};
using ListedTensors = std::map<std::string, ListedTensor>;

// The tensors that report.json lists, by name.
Result<ListedTensors> listed_tensors(const std::string& folder) {
  const std::string path = folder + "/" + kReportFile;
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxUserTextBytes));
  const JsonReport report(text, path, JsonCodes::all_as("check.gguf_tensors", kExportAgain));
  MOEC_ASSIGN(const JsonValue value, report.parse({.bytes = kMaxUserTextBytes}));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  ListedTensors listed;
  MOEC_TRY(fields.each("files", [&](JsonFields& file) -> Status {
    return file.each("tensors", [&](JsonFields& tensor) -> Status {
      std::string name;
      MOEC_TRY(tensor.text("name", name));
      ListedTensor& entry = listed[name];
      MOEC_TRY(tensor.text("type", entry.type));
      return tensor.text("dims", entry.dims);
    });
  }));
  return listed;
}

Status compare_tensors(const Gguf& gguf, const std::string& folder) {
  MOEC_ASSIGN(ListedTensors listed, listed_tensors(folder));
  // Erases each tensor that was found, so that the rest of `listed` is what the files lack.
  for (const GgufTensor& tensor : gguf.tensors) {
    const auto entry = listed.find(tensor.name);
    const ListedTensor found{std::string(enum_name(tensor.type)), to_string(tensor.dims)};
    const Place place{.tensor = tensor.name, .file = gguf.files[tensor.file].path};
    if (entry == listed.end())
      return fail("check.gguf_tensors", fmt::format("{} does not list this tensor", kReportFile),
                  kExportAgain, place);
    if (entry->second != found)
      return fail("check.gguf_tensors",
                  fmt::format("the tensor is {} {}, but {} lists {} {}", found.type, found.dims,
                              kReportFile, entry->second.type, entry->second.dims),
                  kExportAgain, place);
    listed.erase(entry);
  }
  if (listed.empty()) return {};
  return fail("check.gguf_tensors",
              fmt::format("no file contains this tensor, which {} lists", kReportFile),
              kExportAgain, {.tensor = listed.begin()->first, .file = folder});
}

// Compares the manifest's description of the model with the file's keys.
Status compare_models(const manifest::Model& said, const ModelConfig& read,
                      const std::string& file) {
  const auto differs = [&](std::string_view what, const auto& wanted, const auto& found) -> Status {
    if (wanted == found) return {};
    return fail("check.gguf_model",
                fmt::format("the keys say {} {}, but the manifest says {}", what, found, wanted),
                kExportAgain, {.file = file});
  };
  MOEC_TRY(differs("layers", said.layers, std::ssize(read.layers)));
  MOEC_TRY(differs("hidden size", said.hidden, read.hidden));
  MOEC_TRY(differs("vocabulary", said.vocab, read.vocab));
  return differs("positions", said.max_positions, read.max_positions);
}

// The model's first file; the manifest lists files in the order of their numbers.
std::string first_gguf(const Manifest& manifest, const std::string& folder) {
  for (const manifest::FileRef& file : manifest.side_files)
    if (file.path.ends_with(".gguf")) return folder + "/" + file.path;
  return folder;
}

Status check_model(CheckReport& report, const std::string& folder) {
  const std::string first = first_gguf(report.manifest, folder);
  MOEC_ASSIGN(const Gguf gguf, read_gguf(first));
  report.held = count_held(gguf);
  MOEC_TRY(compare_tensors(gguf, folder));
  MOEC_ASSIGN(const Checkpoint model, open_gguf(first));
  MOEC_TRY(compare_models(report.manifest.model, model.config, first));
  report.held->experts = model.config.moe.experts;
  report.held->moe_layers = std::count_if(model.config.layers.begin(), model.config.layers.end(),
                                          [](const auto& layer) { return layer.moe; });
  return {};
}

// ---- Splits ------------------------------------------------------------------------------------

struct IndexedNode {
  std::string name, experts;
  int64_t count = 0;  // experts per layer
  std::vector<manifest::FileRef> files;
};

struct SplitIndex {
  bool finished = false;
  int64_t experts = 0;  // per layer of the whole model
  std::vector<IndexedNode> nodes;
  // Only splits of GGUF files list .gguf paths; nodes of other splits are folders.
  bool of_gguf() const {
    return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
      return std::any_of(node.files.begin(), node.files.end(),
                         [](const auto& file) { return file.path.ends_with(".gguf"); });
    });
  }
};

Status read_node(JsonFields& fields, IndexedNode& node) {
  MOEC_TRY(fields.text("name", node.name));
  if (!fields.has("files")) return {};
  MOEC_TRY(fields.text("experts", node.experts));
  MOEC_TRY(fields.whole("experts_per_layer", node.count));
  MOEC_TRY(fields.each("files", [&](JsonFields& file) -> Status {
    manifest::FileRef& ref = node.files.emplace_back();
    MOEC_TRY(file.text("path", ref.path));
    MOEC_TRY(file.whole("bytes", ref.bytes));
    // An unfinished split lists files without digests.
    return file.has("xxh3") ? file.text("xxh3", ref.digest) : Status();
  }));
  return node.files.empty() ? fields.bad("files", "is empty") : Status();
}

Result<SplitIndex> read_index(const std::string& folder) {
  const std::string path = folder + "/" + kIndexFile;
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxUserTextBytes));
  const JsonReport report(text, path, JsonCodes::all_as("check.split_unfinished", kSplitAgain));
  MOEC_ASSIGN(const JsonValue value, report.parse({.bytes = kMaxUserTextBytes}));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  SplitIndex index;
  MOEC_TRY(fields.boolean("finished", index.finished));
  if (fields.has("experts")) MOEC_TRY(fields.whole("experts", index.experts));
  MOEC_TRY(fields.each("nodes", [&](JsonFields& node) -> Status {
    return read_node(node, index.nodes.emplace_back());
  }));
  return index;
}

// A node's MoE layers and its expert tensors.
struct NodeTensors {
  std::set<int64_t> layers;
  std::vector<const GgufTensor*> experts;
};

NodeTensors tensors_of(const Gguf& gguf) {
  NodeTensors found;
  for (const GgufTensor& tensor : gguf.tensors) {
    const auto block = parse_block_name(tensor.name);
    // llama.cpp names the tensors of experts ffn_gate_exps.weight, ffn_up_exps.weight and so on.
    if (!block || block->name.find("_exps.") == std::string_view::npos) continue;
    found.layers.insert(block->layer);
    found.experts.push_back(&tensor);
  }
  return found;
}

class GgufSplit {
 public:
  GgufSplit(const SplitIndex& index, std::string folder, const CheckOptions& options)
      : index_(index), folder_(std::move(folder)), options_(options) {}

  SplitCheck run() {
    const ReadCallback advance = [&, total = file_bytes()](uint64_t bytes,
                                                           const std::string& file) {
      if (options_.progress) options_.progress(bytes, total, file);
    };
    for (const IndexedNode& node : index_.nodes) {
      auto report = std::make_unique<CheckReport>();
      report->manifest.build.format = ShardFormat::gguf;
      report->manifest.side_files = node.files;
      report->findings = verify_files(report->manifest, folder_, options_.digests, advance);
      // An empty value marks a report without graphs, even if check_node() fails early.
      report->held.emplace();
      add_findings(check_node(node, *report), report->findings);
      check_.nodes.push_back({folder_ + "/" + node.name, std::move(report)});
    }
    check_trunks();
    check_cover();
    return std::move(check_);
  }

 private:
  uint64_t file_bytes() const {
    int64_t bytes = 0;
    for (const IndexedNode& node : index_.nodes)
      for (const manifest::FileRef& file : node.files) bytes += file.bytes;
    return static_cast<uint64_t>(bytes);
  }

  Status check_node(const IndexedNode& node, CheckReport& report) {
    if (node.files.empty())
      return fail("check.gguf_node", fmt::format("{} lists no files of the node", kIndexFile),
                  kSplitAgain, {.file = folder_ + "/" + node.name});
    // The first file of a node has all keys and refers to the others.
    const std::string first = folder_ + "/" + node.files.front().path;
    MOEC_ASSIGN(const Gguf gguf, read_gguf(first));
    report.held = count_held(gguf);
    // The number comes from the index until check_keys() compares it with the file.
    report.held->experts = node.count;
    MOEC_TRY(check_keys(node, gguf, first));
    const NodeTensors tensors = tensors_of(gguf);
    report.held->moe_layers = std::ssize(tensors.layers);
    for (const GgufTensor* tensor : tensors.experts) {
      if (tensor->dims.rank() == 0 || tensor->dims.at(0) != node.count)  // the outermost
        return fail("check.gguf_tensors",
                    fmt::format("the tensor has dimensions {}, but the node has {} experts per "
                                "layer",
                                to_string(tensor->dims), node.count),
                    kSplitAgain, {.tensor = tensor->name, .file = first});
    }
    ExpertGrid grid{.experts = index_.experts};
    grid.layers.assign(tensors.layers.begin(), tensors.layers.end());
    layers_.insert(tensors.layers.begin(), tensors.layers.end());
    // `sets_` grows only for nodes that passed, which check_cover() relies on.
    MOEC_ASSIGN(sets_.emplace_back(), parse_expert_sets(node.experts, grid, node.name));
    return {};
  }

  static Status check_keys(const IndexedNode& node, const Gguf& gguf, const std::string& file) {
    const auto compare = [&](const std::string& key, const std::string& wanted,
                             const std::string& found) -> Status {
      if (wanted == found) return {};
      // The values come from files that may be damaged, so they are shortened and made printable.
      return fail("check.gguf_node",
                  fmt::format("\"{}\" is {}, but {} says {}", key, printable(found, 60), kIndexFile,
                              printable(wanted, 60)),
                  kSplitAgain, {.file = file});
    };
    MOEC_ASSIGN(const auto name, gguf.values.get<std::string_view>("moec.split.node"));
    MOEC_TRY(compare("moec.split.node", node.name, std::string(name)));
    MOEC_ASSIGN(const auto experts, gguf.values.get<std::string_view>("moec.split.experts"));
    MOEC_TRY(compare("moec.split.experts", node.experts, std::string(experts)));
    MOEC_ASSIGN(const auto arch, gguf.values.get<std::string_view>("general.architecture"));
    const std::string key = std::string(arch) + ".expert_count";
    MOEC_ASSIGN(const auto count, gguf.values.get<uint32_t>(key));
    return compare(key, std::to_string(node.count), std::to_string(count));
  }

  // The second of a node's files is the trunk (split_plan.h).
  void check_trunks() {
    std::string first;
    for (const IndexedNode& node : index_.nodes) {
      if (node.files.size() < 2) continue;
      const std::string& digest = node.files[1].digest;
      // Comparing digests suffices, because all nodes must have an identical trunk file.
      if (first.empty()) first = digest;
      if (digest != first)
        find(check_.findings, "check.other_model",
             fmt::format("the trunk of node {} differs from that of node {}", node.name,
                         index_.nodes.front().name),
             kSplitAgain, {.file = folder_});
    }
  }

  void check_cover() {
    if (sets_.size() < index_.nodes.size()) return;  // an unreadable node has its own finding
    ExpertSets missing;
    for (const int64_t layer : layers_)
      for (int64_t expert = 0; expert < index_.experts; ++expert)
        if (std::none_of(sets_.begin(), sets_.end(),
                         [&](const ExpertSets& sets) { return sets.has(layer, expert); }))
          missing.layers[layer].push_back(expert);
    if (!missing.layers.empty())
      find(check_.findings, "check.uncovered",
           fmt::format("experts {} are on no node", to_string(missing)),
           "add the missing node, or split again without --allow-uncovered and --expert-list",
           {.file = folder_});
  }

  const SplitIndex& index_;
  const std::string folder_;
  const CheckOptions& options_;
  std::vector<ExpertSets> sets_;  // by node
  std::set<int64_t> layers_;
  SplitCheck check_;
};

}  // namespace

void check_gguf_export(CheckReport& report, const std::string& folder) {
  report.held.emplace();
  add_findings(check_model(report, folder), report.findings);
}

Result<std::optional<SplitCheck>> check_gguf_split(const std::string& folder,
                                                   const CheckOptions& options) {
  MOEC_ASSIGN(const SplitIndex index, read_index(folder));
  if (!index.of_gguf()) return std::optional<SplitCheck>();
  if (!index.finished)
    return fail("check.split_unfinished",
                fmt::format("{} says that the split was interrupted", kIndexFile), kSplitAgain,
                {.file = folder});
  return std::optional(GgufSplit(index, folder, options).run());
}

}  // namespace moec
