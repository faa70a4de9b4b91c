#include "backends/formats/genai/pipeline_glue.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "backends/formats/genai/cache_slots.h"
#include "backends/manifest/find_port.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr int64_t kSequenceAxis = 2;  // of caches

// The rows of a step follow those before it; the rows after it stay, so that the size is fixed.
void write_rows(GlueBuilder& graph, const std::string& past, const std::string& rows,
                const std::string& next) {
  GraphNodes& nodes = graph.nodes();
  const std::string first = nodes.integers({0}), end = nodes.integers({kToEnd});
  const std::string axis = nodes.integers({kSequenceAxis});
  const std::string before = nodes.add("Slice", {past, first, kCacheBegin, axis}, next + "/before");
  const std::string added = nodes.add("Slice", {rows, kPadding, end, axis}, next + "/added");
  const std::string after = nodes.add("Slice", {past, kCacheEnd, end, axis}, next + "/after");
  nodes.concat({before, added, after}, kSequenceAxis, next);
}

bool is_rows(SinkKind sink) { return sink == SinkKind::k_rows || sink == SinkKind::v_rows; }

}  // namespace

const manifest::Width& width_of(const Manifest& manifest, const std::string& shard,
                                int64_t tokens) {
  const manifest::Shard* found = manifest.find_shard(shard);
  MOEC_CHECK(found, "the schedule names the shard {}, which does not exist", shard);
  const auto& widths = found->widths;
  const auto width = std::find_if(widths.begin(), widths.end(), [&](const manifest::Width& each) {
    return each.tokens == tokens;
  });
  MOEC_CHECK(width != widths.end(), "{} has no graph for {} tokens", shard, tokens);
  return *width;
}

GlueGraph ports_graph(const PipelineSource& source, const PipelineNames& names,
                      const manifest::Step& step, int64_t tokens) {
  const Manifest& manifest = source.manifest;
  GlueBuilder graph(manifest, "ports");
  CacheSlots slots(manifest, source.values_in_keys, graph.proto(), graph.nodes(), true);
  const manifest::Width& width = width_of(manifest, step.shard, tokens);
  std::set<std::string> declared;
  for (const InputBinding& input : step.inputs) {
    if (!names.is_renamed(input)) continue;
    const manifest::Port& port = manifest::port_named(width.inputs, input.port);
    std::string value;
    if (is_cache(input.source)) {
      value = slots.past(input.source, input.layer, port.dtype);
    } else {
      value = names.value(input);
      if (declared.insert(value).second) graph.input(value, port);
    }
    graph.output(input.port, port);
    graph.nodes().add("Identity", {value}, input.port);
  }
  return graph.finish();
}

GlueGraph cache_graph(const PipelineSource& source, const manifest::Step& step, int64_t tokens) {
  const Manifest& manifest = source.manifest;
  GlueBuilder graph(manifest, "cache");
  CacheSlots slots(manifest, source.values_in_keys, graph.proto(), graph.nodes(), true);
  const manifest::Width& width = width_of(manifest, step.shard, tokens);
  for (const char* name : {kCacheBegin, kCacheEnd, kPadding})
    graph.input(name, {name, {DType::i64, {1}}});
  std::set<int64_t> layers;
  for (const OutputBinding& output : step.outputs) {
    if (!is_rows(output.sink)) continue;
    layers.insert(output.layer);
    const bool keys = output.sink == SinkKind::k_rows;
    if (!keys && source.values_in_keys.contains(output.layer)) continue;
    const manifest::Port& port = manifest::port_named(width.outputs, output.port);
    graph.input(output.port, port);
    const std::string past =
        slots.past(keys ? SourceKind::k_cache : SourceKind::v_cache, output.layer, port.dtype);
    write_rows(graph, past, output.port, slots.next(output.sink, output.layer));
  }
  for (const int64_t layer : layers) slots.finish(layer);
  return graph.finish();
}

std::string logit_slice(size_t index) { return fmt::format("logits.{}", index); }

GlueGraph end_graph(const PipelineSource& source, int64_t tokens) {
  const Manifest& manifest = source.manifest;
  GlueBuilder graph(manifest, "end");
  std::vector<std::string> rows;
  DType dtype = manifest.build.dtype;
  for (const manifest::LogitSlice& slice : manifest.logits.slices) {
    const manifest::Port& port =
        manifest::port_named(width_of(manifest, slice.shard, tokens).outputs, slice.port);
    const std::string name = logit_slice(rows.size());
    graph.input(name, port);
    dtype = port.dtype;
    rows.push_back(graph.unpack(name, port, name + "/rows"));
  }
  GraphNodes& nodes = graph.nodes();
  const std::string all = rows.size() == 1 ? rows.front() : nodes.concat(rows, 1, "logits/all");
  const std::string last = nodes.slice(all, -1, kToEnd, 0, "logits/last");
  const int64_t vocab = manifest.logits.vocab;
  nodes.reshape(last, {1, 1, vocab}, kPipelineLogits);
  graph.output(kPipelineLogits, {kPipelineLogits, {dtype, {1, 1, vocab}}});
  return graph.finish();
}

}  // namespace moec
