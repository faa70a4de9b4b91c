#include "backends/formats/litertlm/decoder_model.h"

#include <fmt/format.h>

#include "backends/formats/litertlm/appended_rows.h"
#include "backends/formats/litertlm/step_inputs.h"
#include "backends/formats/tflite/shard_writer.h"
#include "ir/base/invariant.h"
#include "ir/graph/builder.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> refuse(const std::string& shard, std::string cause) {
  return fail("litertlm.form", std::move(cause), "export with --target litert", {.shard = shard});
}

bool is_cache(SourceKind source) {
  return source == SourceKind::k_cache || source == SourceKind::v_cache;
}

// Writes the graph of one signature.
class GraphWriter {
 public:
  GraphWriter(const DecoderModel& model, const SignatureGraph& graph, const DataLayout& layout,
              ModelWriter& file)
      : model_(model),
        graph_(graph),
        layout_(layout),
        subgraph_(file),
        inputs_(model.facts, graph.tokens, layout, subgraph_) {}

  void write() {
    edges_[std::string(kEmbedEdge)] = inputs_.embedding();
    for (const manifest::Step& step : model_.facts.manifest.schedule)
      if (const auto found = graph_.shards.find(step.shard); found != graph_.shards.end())
        add_step(step, *found->second);
    inputs_.add_outputs();
    if (!logits_.empty()) add_logits();
    subgraph_.finish(logits_.empty() ? fmt::format("prefill_{}", graph_.tokens) : "decode");
  }

 private:
  void add_step(const manifest::Step& step, const Shard& shard) {
    ShardWriter writer(shard, layout_, subgraph_);
    ShardWriter::Replaced replaced;
    for (const InputBinding& binding : step.inputs) {
      const ValueId input = find_input(shard, binding.port);
      if (!input.valid()) continue;
      if (binding.source == SourceKind::edge) {
        writer.bind(input, edges_.at(binding.edge));
      } else if (is_cache(binding.source)) {
        const AppendedRows rows = appended_rows(shard, input).value();
        replaced[rows.concat] = [this, &writer, binding, rows] {
          return inputs_.update_cache(binding, writer.tensor_of(rows.rows));
        };
      } else {
        writer.bind(input, inputs_.value(binding));
      }
    }
    writer.write_ops(replaced);
    for (const OutputBinding& binding : step.outputs) {
      const Output* output = find_output(shard, binding.port);
      if (!output) continue;
      if (binding.sink == SinkKind::edge) edges_[binding.edge] = writer.tensor_of(output->value);
      if (binding.sink == SinkKind::logits) logits_.push_back(writer.tensor_of(output->value));
    }
  }

  // Joins the slices of the logits, which the runtime expects in f32.
  void add_logits() {
    Builder b("logits", Form::placed);
    const DType dtype = model_.facts.manifest.build.dtype;
    std::vector<ValueId> slices;
    for (const manifest::LogitSlice& slice : model_.facts.manifest.logits.slices)
      slices.push_back(b.input("logits/" + slice.shard, {dtype, {1, slice.size}}));
    ValueId all = slices.size() == 1 ? slices.front() : b.concat(slices, 1);
    if (dtype != DType::f32) all = b.cast(all, DType::f32);
    b.output("logits", b.reshape(all, {1, 1, model_.facts.manifest.logits.vocab}));
    const Shard shard = b.finish();
    ShardWriter writer(shard, layout_, subgraph_);
    for (size_t i = 0; i < slices.size(); ++i) writer.bind(slices[i], logits_[i]);
    writer.write_ops();
    subgraph_.add_output("logits", writer.tensor_of(shard.outputs.front().value));
  }

  const DecoderModel& model_;
  const SignatureGraph& graph_;
  const DataLayout& layout_;
  Subgraph subgraph_;
  StepInputs inputs_;
  std::map<std::string, int32_t> edges_;
  std::vector<int32_t> logits_;
};

// True if StepInputs or an earlier step provides the input.
bool is_provided(SourceKind source) {
  switch (source) {
    case SourceKind::edge:
    case SourceKind::rope_cos:
    case SourceKind::rope_sin:
    case SourceKind::query_scale:
    case SourceKind::attn_mask:
    case SourceKind::k_cache:
    case SourceKind::v_cache:
      return true;
    case SourceKind::kv_write_mask:
    case SourceKind::history:
    case SourceKind::recurrent_state:
    case SourceKind::token_mask:
      break;
  }
  return false;
}

Status check_input(const Shard& shard, const InputBinding& binding) {
  const ValueId input = find_input(shard, binding.port);
  if (!input.valid()) return {};
  if (!is_provided(binding.source))
    return refuse(shard.name, fmt::format("LiteRT-LM has no {}: it keeps only keys and values",
                                          enum_name(binding.source)));
  if (is_cache(binding.source) && !appended_rows(shard, input))
    return refuse(shard.name,
                  fmt::format("attention does not append its rows to {}", binding.port));
  if (binding.source == SourceKind::attn_mask &&
      (binding.ahead != 0 || shard.type(input).dims.at(0) != 1))
    return refuse(shard.name, "the mask shows tokens ahead, or the cache has pages");
  return {};
}

}  // namespace

Status check_decoder(const DecoderModel& model) {
  for (const SignatureGraph& graph : model.graphs)
    for (const manifest::Step& step : model.facts.manifest.schedule)
      if (const auto found = graph.shards.find(step.shard); found != graph.shards.end())
        for (const InputBinding& binding : step.inputs)
          MOEC_TRY(check_input(*found->second, binding));
  return {};
}

TfliteSource decoder_source(const DecoderModel& model) {
  TfliteSource source;
  for (const SignatureGraph& graph : model.graphs)
    for (const auto& [name, shard] : graph.shards) source.shards.push_back(shard);
  source.add_tables = [&model](DataLayout& layout) { add_decoder_tables(model.facts, layout); };
  source.write_model = [&model](const DataLayout& layout, ModelWriter& file) {
    for (const SignatureGraph& graph : model.graphs)
      GraphWriter(model, graph, layout, file).write();
    file.add_metadata("moec.version", MOEC_VERSION);
    return file.finish(fmt::format("moec decoder, {}", model.facts.manifest.model.family));
  };
  return source;
}

}  // namespace moec
