#include "frontends/export/pipeline_export.h"

#include <nlohmann/json.hpp>

#include "backends/formats/genai/pipeline.h"
#include "backends/manifest/written_file.h"
#include "frontends/export/genai_config.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json describe_stage(const PipelineStage& stage) {
  ordered_json json = {
      {"filename", stage.file}, {"inputs", stage.inputs}, {"outputs", stage.outputs}};
  if (!stage.forwarded.empty()) json["output_names_forwarder"] = stage.forwarded;
  json["run_on_prompt"] = stage.is_for_prompts;
  json["run_on_token_gen"] = !stage.is_for_prompts;
  if (stage.is_head) json["is_lm_head"] = true;
  return {{stage.name, json}};
}

// Prompts run in windows of the larger width. Padding precedes the tokens of the first window, so
// that the last row is the last token.
ordered_json describe_decoder(const Manifest& manifest, const Pipeline& pipeline) {
  ordered_json decoder;
  decoder["outputs"] = {{"logits", kPipelineLogits}};
  decoder["sliding_window"] = {{"window_size", manifest.build.tokens.back()},
                               {"slide_inputs", true},
                               {"slide_key_value_cache", false},
                               {"alignment", "right"}};
  auto stages = ordered_json::array();
  for (const PipelineStage& stage : pipeline.stages) stages.push_back(describe_stage(stage));
  decoder["pipeline"] = std::move(stages);
  return decoder;
}

}  // namespace

std::vector<std::string> pipeline_names(const Manifest& manifest) {
  std::vector<std::string> names = pipeline_files(manifest);
  names.emplace_back(kGenaiConfigFile);
  return names;
}

Result<std::vector<manifest::FileRef>> write_pipeline(const Manifest& manifest,
                                                      const ModelConfig& model,
                                                      const ExportOptions& options) {
  const OutputOptions& output = options.output;
  Pipeline pipeline = make_pipeline({manifest, layers_with_latents(model)});
  const GenaiDecoder decoder{"decoder-pipeline", describe_decoder(manifest, pipeline)};
  MOEC_ASSIGN(std::string config, genai_config(manifest, model, decoder, options.source.path));
  pipeline.files.push_back({kGenaiConfigFile, std::move(config)});
  std::vector<manifest::FileRef> written;
  for (const PipelineFile& file : pipeline.files) {
    MOEC_ASSIGN(manifest::FileRef entry,
                manifest::write_listed_file(output.folder, file.path, file.bytes, output.sha256));
    written.push_back(std::move(entry));
  }
  return written;
}

}  // namespace moec
