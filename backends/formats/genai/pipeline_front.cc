// front_graph(): from the inputs of onnxruntime-genai to those of shards.
#include <onnx/onnx_pb.h>

#include <set>

#include "backends/formats/genai/attention_mask.h"
#include "backends/formats/genai/glue_builder.h"
#include "backends/formats/genai/model_file.h"
#include "backends/formats/genai/pipeline_glue.h"
#include "backends/formats/onnx/onnx_types.h"
#include "backends/formats/onnx/set_attributes.h"
#include "backends/manifest/find_port.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr const char* kPositionRows = "rope_rows";

class FrontGraph {
 public:
  FrontGraph(const PipelineSource& source, const PipelineNames& names, int64_t tokens)
      : manifest_(source.manifest),
        names_(names),
        tokens_(tokens),
        graph_(source.manifest, "front"),
        nodes_(graph_.nodes()) {}

  GlueGraph write() {
    declare("input_ids", tokens_);
    declare("position_ids", tokens_);
    declare("attention_mask", manifest_.build.context);
    add_extent();
    for (const manifest::Step& step : manifest_.schedule)
      for (const InputBinding& input : step.inputs)
        add(input,
            manifest::port_named(width_of(manifest_, step.shard, tokens_).inputs, input.port));
    return graph_.finish();
  }

 private:
  void declare(const std::string& name, int64_t size) {
    graph_.input(name, {name, {DType::i64, {1, size}}});
  }

  // The mask has a one per token so far. The step has T tokens, but a first step may have fewer:
  // padding precedes them.
  void add_extent() {
    const std::string all = nodes_.integers({1}), width = nodes_.integers({tokens_});
    for (const char* name : {kCacheBegin, kCacheEnd, kPadding})
      graph_.output(name, {name, {DType::i64, {1}}});
    const std::string mask = nodes_.reshape("attention_mask", {-1}, "mask");
    set_int(nodes_.node("ReduceSum", {mask}, kCacheEnd), "keepdims", 1);
    const std::string valid = nodes_.add("Min", {kCacheEnd, width}, "valid");
    nodes_.add("Sub", {kCacheEnd, valid}, kCacheBegin);
    nodes_.add("Sub", {width, valid}, kPadding);
  }

  void add(const InputBinding& input, const manifest::Port& port) {
    if (is_cache(input.source)) return;
    if (input.source == SourceKind::edge && input.edge != kEmbedEdge) return;
    const std::string name = names_.value(input);
    if (!known_.insert(name).second) return;
    graph_.output(name, port);
    make(input, port, name);
  }

  void make(const InputBinding& input, const manifest::Port& port, const std::string& name) {
    switch (input.source) {
      case SourceKind::edge:
        pack(gather(add_table("embed.weight", manifest_.embedding, graph_.proto()), "input_ids",
                    "embed_rows"),
             manifest_.embedding.dtype, port, name);
        return;
      case SourceKind::attn_mask:
        add_mask(input, port, name);
        return;
      case SourceKind::rope_cos:
      case SourceKind::rope_sin:
      case SourceKind::query_scale:
        add_columns(input, port, name);
        return;
      case SourceKind::kv_write_mask:
      case SourceKind::k_cache:
      case SourceKind::v_cache:
      case SourceKind::history:
      case SourceKind::recurrent_state:
      case SourceKind::token_mask:
        break;
    }
    // check_pipeline() refuses models with such inputs.
    MOEC_CHECK(false, "a pipeline has no input {}", enum_name(input.source));
  }

  std::string gather(const std::string& table, const std::string& ids, const std::string& name) {
    return nodes_.add("Gather", {table, nodes_.reshape(ids, {-1}, name + "/ids")}, name);
  }

  void pack(std::string rows, DType dtype, const manifest::Port& port, const std::string& name) {
    if (dtype != port.dtype) {
      const std::string narrow = name + "/cast";
      set_int(nodes_.node("Cast", {rows}, narrow), "to", *onnx_dtype(port.dtype));
      rows = narrow;
    }
    graph_.pack(rows, port, name);
  }

  void add_columns(const InputBinding& input, const manifest::Port& port, const std::string& name) {
    const manifest::RopeTable& rope = *manifest_.rope;
    if (std::exchange(has_rope_, true) == false)
      gather(add_table("rope.weight", rope.table, graph_.proto()), "position_ids", kPositionRows);
    const bool scale = input.source == SourceKind::query_scale;
    const int64_t width = scale ? 1 : rope.width(input.rotation);
    int64_t first = rope.column(scale ? std::ssize(rope.widths) : input.rotation);
    if (input.source == SourceKind::rope_sin) first += width;
    pack(nodes_.slice(kPositionRows, first, first + width, 1, name + "/rows"), rope.table.dtype,
         port, name);
  }

  // Keys are the S rows of the cache, then the T tokens of the step. A padding token has a position
  // below those of the step's tokens, but no query sees it.
  void add_mask(const InputBinding& input, const manifest::Port& port, const std::string& name) {
    const int64_t keys = at(port.dims, 3), rows = keys - tokens_;
    const std::string slot = range(keys, name + "/slot"), limit = nodes_.integer(rows);
    const std::string is_cached = nodes_.add("Less", {slot, limit}, name + "/is_cached");
    const std::string token = nodes_.add("Sub", {slot, limit}, name + "/token");
    const std::string shift = nodes_.add("Sub", {kCacheBegin, kPadding}, name + "/shift");
    const std::string position = nodes_.add("Add", {token, shift}, name + "/position");
    const std::string at_key =
        nodes_.add("Where", {is_cached, slot, position}, name + "/key_position");
    // Closed are rows of the cache that the step does not follow, and padding: new keys before it.
    const std::string before = nodes_.add("Less", {at_key, kCacheBegin}, name + "/before_step");
    const std::string closed = nodes_.add("Xor", {before, is_cached}, name + "/is_closed");
    const std::string query = nodes_.add(
        "Add", {nodes_.reshape(range(tokens_, name + "/query"), {-1, 1}, name + "/column"), shift},
        name + "/query_position");
    add_attention_mask(nodes_, input, {at_key, query, closed}, name,
                       {port.dtype, manifest_.masked_value});
  }

  std::string range(int64_t count, const std::string& name) {
    return nodes_.add("Range", {nodes_.integer(0), nodes_.integer(count), nodes_.integer(1)}, name);
  }

  const Manifest& manifest_;
  const PipelineNames& names_;
  const int64_t tokens_;
  GlueBuilder graph_;
  GraphNodes& nodes_;
  std::set<std::string> known_;
  bool has_rope_ = false;
};

}  // namespace

GlueGraph front_graph(const PipelineSource& source, const PipelineNames& names, int64_t tokens) {
  return FrontGraph(source, names, tokens).write();
}

}  // namespace moec
