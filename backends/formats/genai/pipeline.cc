#include "backends/formats/genai/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {
namespace {

// The tables are in the export's own folder, and external data must not leave that of its graph.
std::string front_file(int64_t tokens) { return fmt::format("genai_front.t{}.onnx", tokens); }

std::string glue_file(const std::string& stage, int64_t tokens) {
  return fmt::format("genai/{}.t{}.onnx", stage, tokens);
}

std::string ports_stage(const std::string& shard) { return shard + ".ports"; }
std::string cache_stage(const std::string& shard) { return shard + ".cache"; }
constexpr const char* kEnd = "end";

bool keeps_rows(const manifest::Step& step) {
  return std::any_of(step.outputs.begin(), step.outputs.end(), [](const OutputBinding& output) {
    return output.sink == SinkKind::k_rows || output.sink == SinkKind::v_rows;
  });
}

class PipelineWriter {
 public:
  PipelineWriter(const PipelineSource& source, Pipeline& pipeline)
      : source_(source), names_(source.manifest), pipeline_(pipeline) {}

  void write(int64_t tokens) {
    tokens_ = tokens;
    add_glue("front", front_file(tokens), front_graph(source_, names_, tokens));
    for (const manifest::Step& step : source_.manifest.schedule) {
      if (std::any_of(step.inputs.begin(), step.inputs.end(),
                      [&](const InputBinding& input) { return names_.is_renamed(input); }))
        add_glue(ports_stage(step.shard), ports_graph(source_, names_, step, tokens));
      add_shard(step);
      if (keeps_rows(step)) add_glue(cache_stage(step.shard), cache_graph(source_, step, tokens));
    }
    add_glue(kEnd, end_graph(source_, tokens));
    pipeline_.stages.back().is_head = true;
  }

 private:
  PipelineStage& add_stage(const std::string& name, std::string file) {
    PipelineStage& stage = pipeline_.stages.emplace_back();
    stage.name = fmt::format("{}.t{}", name, tokens_);
    stage.file = std::move(file);
    stage.is_for_prompts = tokens_ > 1;
    return stage;
  }

  void add_glue(const std::string& name, const std::string& file, GlueGraph graph) {
    PipelineStage& stage = add_stage(name, file);
    stage.inputs = std::move(graph.inputs);
    stage.outputs = std::move(graph.outputs);
    pipeline_.files.push_back({file, std::move(graph.bytes)});
  }
  void add_glue(const std::string& name, GlueGraph graph) {
    add_glue(name, glue_file(name, tokens_), std::move(graph));
  }

  void add_shard(const manifest::Step& step) {
    const manifest::Width& width = width_of(source_.manifest, step.shard, tokens_);
    PipelineStage& stage = add_stage(step.shard, width.file.path);
    for (const manifest::Port& port : width.inputs) stage.inputs.push_back(port.name);
    for (const manifest::Port& port : width.outputs) stage.outputs.push_back(port.name);
    for (const OutputBinding& output : step.outputs) {
      const std::string name = name_of(step, output);
      if (name != output.port) stage.forwarded[output.port] = name;
      stage.is_head |= output.sink == SinkKind::logits;
    }
  }

  // The name of an output for later stages.
  std::string name_of(const manifest::Step& step, const OutputBinding& output) const {
    if (output.sink == SinkKind::edge) return names_.edge(output.edge);
    if (output.sink != SinkKind::logits) return output.port;
    const auto& slices = source_.manifest.logits.slices;
    const auto slice =
        std::find_if(slices.begin(), slices.end(), [&](const manifest::LogitSlice& each) {
          return each.shard == step.shard && each.port == output.port;
        });
    return logit_slice(static_cast<size_t>(slice - slices.begin()));
  }

  const PipelineSource& source_;
  const PipelineNames names_;
  Pipeline& pipeline_;
  int64_t tokens_ = 0;
};

}  // namespace

Pipeline make_pipeline(const PipelineSource& source) {
  Pipeline pipeline;
  PipelineWriter writer(source, pipeline);
  writer.write(source.manifest.build.tokens.back());
  writer.write(1);
  return pipeline;
}

std::vector<std::string> pipeline_files(const Manifest& manifest) {
  std::vector<std::string> files;
  for (const int64_t tokens : manifest.build.tokens) {
    files.push_back(front_file(tokens));
    files.push_back(glue_file(kEnd, tokens));
    for (const manifest::Step& step : manifest.schedule)
      for (const std::string& stage : {ports_stage(step.shard), cache_stage(step.shard)})
        files.push_back(glue_file(stage, tokens));
  }
  return files;
}

}  // namespace moec
