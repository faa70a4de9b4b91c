// The runtime manifest as plain structs: everything that a runtime needs to execute a folder of
// shards step by step, without knowledge of the model. manifest.fbs documents the fields; each
// struct mirrors the schema table of the same name.
//
//   manifest_file.h   reads and writes manifest.json and manifest.bin
//   manifest_check.h  checks a manifest and its files
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/emit/weight_record.h"
#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "ir/experts/top_k_policy.h"
#include "ir/graph/ops.h"
#include "ir/graph/type.h"
#include "ir/model/plan.h"
#include "ir/target/target.h"

namespace moec::manifest {

// Incremented if a field is added, removed, or changes its meaning.
inline constexpr int64_t kSchemaVersion = 19;
// The oldest version that is read. Version 19 only added optional fields, which are absent from
// version 18.
inline constexpr int64_t kOldestSchema = 18;

struct Tool {
  std::string name, version;
  bool operator==(const Tool&) const = default;
};

struct Model {
  std::string family;
  std::string config_digest;  // of config.json, as in FileRef; empty: no config.json (GGUF)
  int64_t hidden = 0, vocab = 0, layers = 0, max_positions = 0;
  double norm_eps = 0;
  bool tied_head = false;
  int64_t left_out_layers = 0;
  Task task = Task::text_generation;
  std::vector<int64_t> eos_tokens;
  std::vector<int64_t> mixer_only, feed_forward_only;  // layers that consist of one part, ascending
  bool operator==(const Model&) const = default;
};

struct Budget {
  ShardKind kind = ShardKind::attention;
  int64_t bytes = 0;
  bool operator==(const Budget&) const = default;
};

struct Build {
  std::string target;
  ShardFormat format = ShardFormat::onnx;
  DType dtype = DType::f32;
  Layout layout = Layout::channels;
  std::vector<int64_t> tokens;
  int64_t context = 0;
  CacheForm cache = CacheForm::append;
  int64_t cache_pages = 1;
  std::string routing;  // a name of passes/pass.h RoutingForm
  bool exact = false;
  std::string experts;  // a name of passes/pass.h ExpertForm
  bool seeded = false;
  std::vector<Budget> budgets;
  std::string weights;       // ir/model/weight_policy.h, as text
  std::string expert_mask;   // ir/experts/expert_sets.h, as text; empty: none
  bool drop_masked = false;  // the shards have only the experts of the mask
  bool operator==(const Build&) const = default;
};

enum class TokenizerKind : uint8_t { none, bytes };
constexpr auto enum_names(TokenizerKind) { return name_table<TokenizerKind>({"none", "bytes"}); }

struct FileRef {
  std::string path;  // relative to the manifest's folder
  int64_t bytes = 0;
  std::string digest;
  std::string sha256;  // empty unless requested
  bool operator==(const FileRef&) const = default;
};

struct TableFile {
  FileRef file;
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  bool operator==(const TableFile&) const = default;
};

struct RopeTable {
  TableFile table;
  RopeStyle style = RopeStyle::half;
  bool query_scale = false;
  std::vector<int64_t> widths;  // of each rotation: its number of cosines, and of sines
  int64_t width(int64_t rotation) const { return at(widths, rotation); }
  // Returns the column of the first cosine of a rotation; the sines follow the cosines. For
  // `rotation` == widths.size(), the column of the query scale.
  int64_t column(int64_t rotation) const {
    int64_t column = 0;
    for (int64_t before = 0; before < rotation; ++before) column += 2 * width(before);
    return column;
  }
  bool has(int64_t rotation) const { return rotation >= 0 && rotation < std::ssize(widths); }
  bool operator==(const RopeTable&) const = default;
};

struct Cache {
  int64_t layer = 0, kv_heads = 0, rows = 0, head_dim = 0, value_dim = 0;
  DType dtype = DType::f32;
  int64_t history_tokens = 0, history_channels = 0;
  std::vector<int64_t> state;  // sizes of a recurrent state; empty: none
  bool operator==(const Cache&) const = default;
};

// Returns the number of elements of the recurrent state.
inline size_t state_elements(const Cache& cache) {
  if (cache.state.empty()) return 0;
  size_t elements = 1;
  for (const int64_t size : cache.state) elements *= static_cast<size_t>(size);
  return elements;
}

struct Port {
  std::string name;
  DType dtype = DType::f32;
  Layout layout = Layout::plain;
  std::vector<int64_t> dims;
  bool operator==(const Port&) const = default;

  Port() = default;
  Port(std::string port_name, const Type& type)
      : name(std::move(port_name)), dtype(type.dtype), layout(type.layout), dims(type.dims) {}
  Type type() const { return {dtype, dims, layout}; }
};

struct Width {
  int64_t tokens = 0;
  FileRef file;
  std::string function;
  std::string graph;
  std::vector<Port> inputs, outputs;
  // k of each MoE layer of the shard; nullopt if the export has no top-k variants or the shard has
  // no router.
  std::optional<std::vector<int64_t>> top_k;
  bool operator==(const Width&) const = default;
};

struct OpCount {
  std::string op;  // a mnemonic
  int64_t count = 0;
  bool operator==(const OpCount&) const = default;
};

struct Cost {
  int64_t bytes_dense = 0, bytes_active = 0, macs_dense = 0, macs_active = 0;
  bool operator==(const Cost&) const = default;
};

struct RuleCount {
  std::string rule;
  int64_t ops = 0;
  bool operator==(const RuleCount&) const = default;
};

struct Placement {
  std::string unit;
  int64_t ops = 0;
  std::vector<RuleCount> rules;
  bool operator==(const Placement&) const = default;
};

struct Routing {
  int64_t experts = 0;
  Router router;
  bool operator==(const Routing&) const = default;
};

struct Shard {
  std::string name;
  ShardKind kind = ShardKind::attention;
  int64_t layer = -1;
  int64_t layers = 1;
  std::vector<int64_t> moe_layers;
  int64_t first_expert = 0, experts = 0;
  std::vector<int64_t> expert_ids;
  int64_t slice = 0, slices = 1;
  int64_t vocab_begin = 0, vocab_size = 0;
  std::vector<Width> widths;
  std::vector<FileRef> data;
  std::vector<Port> states;
  std::optional<Routing> routing;
  int64_t weight_bytes = 0;
  std::vector<WeightRecord> weights;
  std::vector<OpCount> ops;
  Cost cost;
  std::vector<Placement> placement;
  int64_t cast_overflows = 0;
  bool operator==(const Shard&) const = default;
};

struct Step {
  std::string shard;  // by name
  std::vector<InputBinding> inputs;
  std::vector<OutputBinding> outputs;
  std::string skip_from, skip_to;
  bool operator==(const Step&) const = default;
};

struct LogitSlice {
  std::string shard, port;
  int64_t begin = 0, size = 0;
  bool operator==(const LogitSlice&) const = default;
};

struct Logits {
  int64_t vocab = 0;
  std::vector<LogitSlice> slices;
  bool operator==(const Logits&) const = default;
};

struct Label {
  std::string name;
  bool operator==(const Label&) const = default;
};

struct Tagging {
  std::vector<Label> labels;
  double stay_outside = 0, outside_to_start = 0;
  double inside_to_inside = 0, inside_to_end = 0;
  double end_to_outside = 0, end_to_start = 0;
  bool operator==(const Tagging&) const = default;
};

struct Golden {
  std::string shard;
  DType precision = DType::f32;
  double cosine = 0, relative_l2 = 0;
  bool operator==(const Golden&) const = default;
};

struct HeldShard {
  std::string shard;  // by name
  bool operator==(const HeldShard&) const = default;
};

struct Device {
  std::string name;
  int64_t bytes = 0;
  std::vector<HeldShard> shards;
  bool operator==(const Device&) const = default;
};

struct Node {
  std::string name;
  std::string experts;  // ir/experts/expert_sets.h, as text; empty: all experts
  int64_t stage = 0, stages = 1;
  int64_t first_layer = 0, layers = 0;
  bool operator==(const Node&) const = default;
};

struct TopKLayer {
  int64_t layer = 0, top_k = 0;
  bool operator==(const TopKLayer&) const = default;
};

struct TopKVariant {
  std::string name;  // ir/experts/top_k_variants.h
  std::vector<TopKLayer> layers;
  int64_t bytes_active = 0, macs_active = 0;
  bool operator==(const TopKVariant&) const = default;
};

struct Confidence {
  double threshold = 0;
  bool operator==(const Confidence&) const = default;
};

struct TopK {
  int64_t own = 0;
  std::vector<TopKVariant> forms;  // at least one; the first is the default
  std::vector<BatteryRule> battery;
  std::vector<CategoryRule> categories;
  std::optional<Confidence> confidence;
  bool operator==(const TopK&) const = default;
};

struct Capacity {
  double factor = 0;
  bool operator==(const Capacity&) const = default;
};

struct Manifest {
  int64_t schema_version = kSchemaVersion;
  Tool tool;
  Model model;
  Build build;
  TokenizerKind tokenizer = TokenizerKind::none;
  std::vector<FileRef> carried;
  std::vector<FileRef> side_files;
  std::optional<FileRef> binary;
  TableFile embedding;
  std::optional<RopeTable> rope;
  std::vector<Cache> caches;
  double masked_value = masked_score(DType::f32);
  std::vector<Shard> shards;
  std::vector<Step> schedule;
  Logits logits;
  std::optional<Tagging> tagging;
  std::vector<Device> devices;
  std::optional<Node> node;
  std::vector<IgnoredWeight> ignored;
  std::vector<Golden> golden;
  std::optional<TopK> top_k;
  std::optional<Capacity> capacity;
  bool operator==(const Manifest&) const = default;

  // Returns true if the files contain graphs. Otherwise there are no shards or tables, and
  // side_files lists the weight files.
  bool has_graphs() const { return build.format != ShardFormat::gguf; }
  // Layers [first_layer(), end_layer()) are in this folder: all layers of the model, unless the
  // folder is a node.
  int64_t first_layer() const { return node ? node->first_layer : 0; }
  int64_t end_layer() const { return node ? node->first_layer + node->layers : model.layers; }
  // has_embedding(): this folder has the embedding and rotary tables. has_head(): it has the head.
  bool has_embedding() const { return has_graphs() && first_layer() == 0; }
  bool has_head() const { return end_layer() == model.layers; }
  const Shard* find_shard(std::string_view name) const {
    for (const Shard& shard : shards)
      if (shard.name == name) return &shard;
    return nullptr;
  }
  // By its path.
  const FileRef* find_side_file(std::string_view path) const {
    for (const FileRef& file : side_files)
      if (file.path == path) return &file;
    return nullptr;
  }
  const Cache* find_cache(int64_t layer) const {
    for (const Cache& cache : caches)
      if (cache.layer == layer) return &cache;
    return nullptr;
  }
};

}  // namespace moec::manifest

namespace moec {
using manifest::Manifest;
}
