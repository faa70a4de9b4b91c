#include "backends/formats/genai/decoder_graph.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <vector>

#include "backends/emit/message_bytes.h"
#include "backends/formats/genai/cache_slots.h"
#include "backends/formats/genai/decoder_inputs.h"
#include "backends/formats/genai/fused_attention.h"
#include "backends/formats/genai/model_file.h"
#include "backends/formats/genai/part_writer.h"
#include "backends/formats/onnx/set_attributes.h"
#include "backends/manifest/find_port.h"
#include "ir/base/invariant.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

constexpr int64_t kRowAxis = 2;  // of caches

class DecoderGraph {
 public:
  DecoderGraph(const DecoderSource& source, onnx::GraphProto& graph)
      : source_(source),
        manifest_(source.manifest),
        graph_(graph),
        nodes_(graph),
        inputs_(source.manifest, graph, nodes_),
        slots_(source.manifest, source.values_in_keys, graph, nodes_),
        parts_(graph, nodes_) {}

  void write() {
    graph_.set_name("decoder");
    // The engine expects the logits as the first output.
    declare_port("logits", manifest_.build.dtype, {{1, {}}, {1, {}}, {manifest_.logits.vocab, {}}},
                 *graph_.add_output());
    for (const manifest::Step& step : manifest_.schedule) add_step(step);
    for (const manifest::Cache& cache : manifest_.caches) slots_.finish(cache.layer);
    const std::string logits =
        logits_.size() == 1 ? logits_.front() : nodes_.concat(logits_, 1, "logits/slices");
    nodes_.reshape(logits, {1, 1, manifest_.logits.vocab}, "logits");
  }

 private:
  // A part and the names of its values.
  struct Placed {
    const manifest::Step& step;
    onnx::GraphProto& part;
    PartNames names;
    std::set<int64_t> fused;  // layers with a node GroupQueryAttention
    DType dtype_of(const std::string& port) const {
      for (const onnx::ValueInfoProto& input : part.input())
        if (input.name() == port) return port_dtype(input);
      MOEC_CHECK(false, "{} has no input {}", step.shard, port);
    }
  };

  void add_step(const manifest::Step& step) {
    const auto found = source_.parts.find(step.shard);
    MOEC_CHECK(found != source_.parts.end(), "shard {} has no part, only {} others have",
               step.shard, source_.parts.size());
    const DecoderPart& source = found->second;
    onnx::GraphProto part;
    MOEC_CHECK(part.ParseFromString(source.graph), "the part {} is not a graph", step.shard);
    Placed placed{step, part, PartNames(step.shard + "/")};
    if (source.per_token)
      add_loop(placed);
    else
      add_part(placed);
  }

  static bool is_cache(SourceKind source) {
    return source == SourceKind::k_cache || source == SourceKind::v_cache;
  }
  static bool is_in_slot(SourceKind source) {
    return is_cache(source) || source == SourceKind::history ||
           source == SourceKind::recurrent_state;
  }

  // The value of a part's input.
  std::string input_of(const Placed& placed, const InputBinding& binding) {
    if (is_in_slot(binding.source))
      return slots_.past(binding.source, binding.layer, placed.dtype_of(binding.port));
    if (binding.source != SourceKind::edge) return inputs_.value(binding);
    const bool head =
        std::any_of(placed.step.outputs.begin(), placed.step.outputs.end(),
                    [](const OutputBinding& output) { return output.sink == SinkKind::logits; });
    return head ? last_row(binding.edge) : binding.edge;
  }

  // Only the logits of the last token are computed.
  std::string last_row(const std::string& edge) {
    const std::string name = edge + "/last";
    if (std::exchange(last_row_, name) != name) nodes_.slice(edge, -1, kToEnd, 0, name);
    return name;
  }

  // Adds the nodes of attention that the part leaves open.
  void fuse_attention(Placed& placed) {
    for (const InputBinding& binding : placed.step.inputs) {
      if (binding.source != SourceKind::k_cache) continue;
      const std::string label = binding.port.substr(std::string_view(kKeyState).size());
      if (!leaves_open(placed.part, label)) continue;
      const InputBinding* mask = manifest::find_input(placed.step, mask_of(placed.part, label));
      MOEC_CHECK(mask && mask->ahead == 0, "{} has another mask than the op", placed.step.shard);
      const manifest::Cache& cache = slots_.cache_of(binding.layer);
      insert_attention({label, cache.kv_heads, cache.head_dim, mask->window, mask->chunk > 0},
                       placed.part);
      inputs_.count_keys(input_of(placed, binding));
      placed.names.set(all_keys(label), slots_.next(SinkKind::k_rows, binding.layer));
      placed.names.set(all_values(label), slots_.next(SinkKind::v_rows, binding.layer));
      placed.fused.insert(binding.layer);
    }
  }

  void add_part(Placed& placed) {
    fuse_attention(placed);
    for (const InputBinding& binding : placed.step.inputs)
      if (has_reader(placed.part, binding.port))
        placed.names.set(binding.port, input_of(placed, binding));
    std::vector<std::pair<std::string, const OutputBinding*>> appended;
    for (const OutputBinding& binding : placed.step.outputs) {
      if (binding.sink == SinkKind::edge) placed.names.set(binding.port, binding.edge);
      if (binding.sink == SinkKind::logits)
        placed.names.set(binding.port, logits_.emplace_back("logits/" + placed.step.shard));
      if (binding.layer < 0) continue;
      const bool rows = binding.sink == SinkKind::k_rows || binding.sink == SinkKind::v_rows;
      if (rows && placed.fused.contains(binding.layer)) continue;
      const std::string next = slots_.next(binding.sink, binding.layer);
      if (const std::string* all = appended_in_part(placed, binding))
        placed.names.set(*all, next);
      else
        appended.emplace_back(next, &binding);
    }
    parts_.write(placed.part, placed.names, graph_);
    for (const auto& [next, binding] : appended) append_rows(placed, *binding, next);
  }

  // The part's own concatenation of a cache with its new rows, if it has one.
  static const std::string* appended_in_part(const Placed& placed, const OutputBinding& output) {
    if (output.sink != SinkKind::k_rows && output.sink != SinkKind::v_rows) return nullptr;
    const SourceKind source =
        output.sink == SinkKind::k_rows ? SourceKind::k_cache : SourceKind::v_cache;
    const auto& inputs = placed.step.inputs;
    const auto cache = std::find_if(inputs.begin(), inputs.end(), [&](const InputBinding& input) {
      return input.source == source && input.layer == output.layer;
    });
    for (const onnx::NodeProto& node : placed.part.node())
      if (node.op_type() == "Concat" && node.input_size() == 2 && cache != inputs.end() &&
          node.input(0) == cache->port && node.input(1) == output.port)
        return &node.output(0);
    return nullptr;
  }

  // Defines `next` as the earlier rows followed by the new ones; a history keeps its length.
  void append_rows(const Placed& placed, const OutputBinding& output, const std::string& next) {
    const std::string rows = placed.names(output.port);
    if (output.sink != SinkKind::history_rows) {
      const SourceKind source =
          output.sink == SinkKind::k_rows ? SourceKind::k_cache : SourceKind::v_cache;
      nodes_.concat({slots_.past(source, output.layer, manifest_.build.dtype), rows}, kRowAxis,
                    next);
      return;
    }
    const std::string past = slots_.past(SourceKind::history, output.layer, manifest_.build.dtype);
    const std::string all = nodes_.concat({past, rows}, 0, next + "/all");
    nodes_.slice(all, -history_tokens(output.layer), kToEnd, 0, next);
  }

  int64_t history_tokens(int64_t layer) const { return slots_.cache_of(layer).history_tokens; }

  // ---- Loops over tokens -----------------------------------------------------------------------

  // Runs a part for one token in a Scan over the rows of its edge. The history and the state are
  // the loop's states.
  void add_loop(Placed& placed) {
    const std::string prefix = placed.step.shard + "/loop/";
    onnx::GraphProto body;
    body.set_name(prefix + "body");
    GraphNodes inner(body);
    std::vector<std::string> states, edges;
    for (const InputBinding& binding : placed.step.inputs) {
      const std::string local = prefix + binding.port;
      if (binding.source == SourceKind::edge) {
        edges.push_back(binding.edge);
        placed.names.set(binding.port, prefix + "row");
      } else if (is_in_slot(binding.source)) {
        states.push_back(input_of(placed, binding));
        placed.names.set(binding.port, local);
        body.add_input()->set_name(local);
      } else {
        MOEC_CHECK(binding.source == SourceKind::token_mask, "a loop has no {}", binding.port);
        placed.names.set(binding.port, one_token());
      }
    }
    MOEC_CHECK(edges.size() == 1, "a loop has {} edges", edges.size());
    body.add_input()->set_name(prefix + "token");
    inner.node("Unsqueeze", {prefix + "token", nodes_.integers({0})}, prefix + "row");
    parts_.write(placed.part, placed.names, body);
    std::vector<std::string> outputs = loop_outputs(placed, prefix, inner, body);
    states.push_back(edges.front());
    onnx::NodeProto& scan = nodes_.node("Scan", states, outputs.front());
    scan.set_name(prefix + "scan");
    for (size_t i = 1; i < outputs.size(); ++i) scan.add_output(outputs[i]);
    set_int(scan, "num_scan_inputs", 1);
    auto& attribute = *scan.add_attribute();
    attribute.set_name("body");
    attribute.set_type(onnx::AttributeProto::GRAPH);
    declare_types(placed, body);
    *attribute.mutable_g() = std::move(body);
  }

  // Adds the outputs of the body in the order of its states, then the row of the edge. Returns the
  // outputs of the loop.
  std::vector<std::string> loop_outputs(const Placed& placed, const std::string& prefix,
                                        GraphNodes& inner, onnx::GraphProto& body) {
    std::vector<std::string> outputs;
    std::string edge, row;
    for (const InputBinding& input : placed.step.inputs) {
      if (!is_in_slot(input.source)) continue;
      const bool history = input.source == SourceKind::history;
      const SinkKind sink = history ? SinkKind::history_rows : SinkKind::recurrent_state;
      std::string value = placed.names(port_of(placed, sink));
      if (history) {
        const std::string all =
            set_axis(inner.node("Concat", {placed.names(input.port), value}, prefix + "rows"));
        value = prefix + "next_history";
        inner.add("Slice",
                  {all, nodes_.integers({-history_tokens(input.layer)}), nodes_.integers({kToEnd}),
                   nodes_.integers({0})},
                  value);
      }
      body.add_output()->set_name(value);
      outputs.push_back(slots_.next(sink, input.layer));
    }
    for (const OutputBinding& output : placed.step.outputs)
      if (output.sink == SinkKind::edge) {
        const std::string out = prefix + "out";
        inner.add("Squeeze", {placed.names(output.port), nodes_.integers({0})}, out);
        body.add_output()->set_name(out);
        outputs.push_back(output.edge);
      }
    return outputs;
  }

  static std::string set_axis(onnx::NodeProto& concat) {
    set_int(concat, "axis", 0);
    return concat.output(0);
  }

  static std::string port_of(const Placed& placed, SinkKind sink) {
    for (const OutputBinding& output : placed.step.outputs)
      if (output.sink == sink) return output.port;
    MOEC_CHECK(false, "{} has no output {}", placed.step.shard, enum_name(sink));
  }

  // The types of a body's inputs and outputs follow from the loop, except their element types.
  void declare_types(const Placed& placed, onnx::GraphProto& body) const {
    const auto set = [](onnx::ValueInfoProto& port, DType dtype) {
      const std::string name = port.name();
      port.mutable_type()->mutable_tensor_type()->set_elem_type(
          dtype == DType::f16 ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::FLOAT);
      port.set_name(name);
    };
    int next = 0;
    for (const InputBinding& input : placed.step.inputs)
      if (is_in_slot(input.source)) {
        set(*body.mutable_input(next), placed.dtype_of(input.port));
        set(*body.mutable_output(next), placed.dtype_of(input.port));
        ++next;
      }
    set(*body.mutable_input(next), manifest_.build.dtype);
    set(*body.mutable_output(next), manifest_.build.dtype);
  }

  std::string one_token() {
    const std::string name = "token_mask_of_one";
    if (!std::exchange(has_one_token_, true))
      nodes_.reshape(nodes_.number(manifest_.build.dtype, 1), {1, 1}, name);
    return name;
  }

  const DecoderSource& source_;
  const Manifest& manifest_;
  onnx::GraphProto& graph_;
  GraphNodes nodes_;
  DecoderInputs inputs_;
  CacheSlots slots_;
  PartWriter parts_;
  std::vector<std::string> logits_;  // slices of the vocabulary
  std::string last_row_;
  bool has_one_token_ = false;
};

}  // namespace

Result<std::string> decoder_graph(const DecoderSource& source) {
  onnx::ModelProto model;
  begin_model(source.manifest.tool.version, model);
  DecoderGraph(source, *model.mutable_graph()).write();
  constexpr uint64_t kLimit = (uint64_t{1} << 31) - 1;
  if (const uint64_t bytes = model.ByteSizeLong(); bytes > kLimit)
    return fail(
        "emit.graph_too_large",
        fmt::format("the decoder graph would have {} bytes, the limit is {}", bytes, kLimit),
        "export for target onnx, which has one graph per shard");
  return message_bytes(model);
}

}  // namespace moec
