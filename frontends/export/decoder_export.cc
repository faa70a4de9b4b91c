#include "frontends/export/decoder_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/formats/genai/decoder_part.h"
#include "backends/manifest/written_file.h"
#include "frontends/compile/export_compile.h"
#include "frontends/export/genai_config.h"
#include "ir/base/at.h"

namespace moec {
namespace {

constexpr const char* kModelFile = "model.onnx";

Plan at_points(const Plan& plan, std::initializer_list<GraphPoint> points) {
  Plan sample = plan;
  sample.build.tokens.clear();
  for (const GraphPoint& point : points) sample.build.tokens.push_back(point.tokens);
  sample.build.context = points.begin()->past;
  return sample;
}

Status refuse_form(std::string cause, std::string next) {
  return fail("genai.form", std::move(cause), std::move(next));
}

Status check_form(const Plan& plan, const CompileOptions& compile) {
  if (plan.build.layout != Layout::rows)
    return refuse_form("a decoder graph has rows of tokens, which --form conv does not write",
                       "omit --form");
  if (compile.passes.capacity > 0)
    return refuse_form(
        "--capacity depends on the number of tokens, which a decoder graph leaves open",
        "omit --capacity");
  const auto& layers = plan.model.layers;
  const bool recurrent = std::any_of(layers.begin(), layers.end(), [](const LayerConfig& layer) {
    return layer.mixes() && is_recurrent(layer.mixer);
  });
  if (recurrent && plan.build.layers_per_shard > 0)
    return refuse_form(
        "a decoder graph runs recurrent mixers once per token, and other parts for all "
        "tokens at once",
        "omit --layers-per-shard");
  return {};
}

Status check_family(const ModelConfig& model) {
  if (model.keeps_cache() && model.head.task == Task::text_generation) return {};
  return fail("genai.family",
              fmt::format("{} does not generate text token by token, which is all that "
                          "onnxruntime-genai does",
                          model.family),
              "export for target onnx");
}

}  // namespace

std::vector<std::string> decoder_files() { return {kModelFile, kGenaiConfigFile}; }

DecoderExport::DecoderExport(const Plan& plan)
    : few_rows_(at_points(plan, {kSamplePoints[0], kSamplePoints[1]})),
      more_rows_(at_points(plan, {kSamplePoints[2], kSamplePoints[3]})),
      one_token_(at_points(plan, {GraphPoint{1, kSamplePoints[0].past}})) {}

Result<std::shared_ptr<const DecoderExport>> plan_decoder(const Plan& plan,
                                                          const CompileOptions& compile) {
  const Target& target = compile.passes.target;
  if (!target.engine.decoder_graph || target.format != ShardFormat::onnx) return nullptr;
  MOEC_TRY(check_family(plan.model));
  MOEC_TRY(check_form(plan, compile));
  return std::shared_ptr<const DecoderExport>(new DecoderExport(plan));
}

// The state of these mixers depends on the number of tokens in more than sizes.
bool DecoderExport::is_per_token(size_t index) const {
  const ShardDecl& shard = one_token_.shards[index];
  return is_attention(shard.kind) &&
         at(kMixers, at(one_token_.model.layers, shard.layer).mixer).heads;
}

Result<DecoderPart> DecoderExport::part(size_t index, const CompiledShard& emitted,
                                        const ExportOptions& options,
                                        const ExpertLayout& experts) const {
  const CompileOptions& compile = options.compile;
  PassOptions passes = compile.passes;
  passes.open_attention = true;
  DecoderPart part;
  part.per_token = is_per_token(index);
  PartSamples samples;
  std::vector<CompiledShard> compiled;
  const auto add = [&](const Plan& plan) -> Status {
    MOEC_ASSIGN(CompiledShard shard,
                compile_shard(plan, index, passes, RunOptions(), compile.folds));
    // The first variant is the default; others have further graphs after its widths.
    shard.widths.resize(plan.build.tokens.size());
    for (const int64_t tokens : plan.build.tokens)
      samples.points.push_back({tokens, plan.build.context});
    compiled.push_back(std::move(shard));
    return {};
  };
  if (part.per_token) {
    MOEC_TRY(add(one_token_));
  } else {
    MOEC_TRY(add(few_rows_));
    MOEC_TRY(add(more_rows_));
  }
  for (const CompiledShard& shard : compiled)
    for (const Shard& width : shard.widths) samples.shards.push_back(&width);
  const ShardDecl& decl = one_token_.shards[index];
  std::vector<ShardWidth> widths;
  for (const Shard& width : emitted.widths) widths.push_back({0, &width, {}});
  MOEC_ASSIGN(part.graph,
              decoder_part(samples, {decl.stem + ".data", widths, experts}, options.output.onnx));
  return part;
}

Status DecoderExport::try_each_kind(const Plan& plan, const ExportOptions& options) const {
  std::set<std::pair<ShardKind, MixerKind>> tried;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardDecl& shard = plan.shards[i];
    const MixerKind mixer =
        shard.layer < 0 ? MixerKind::attention : at(plan.model.layers, shard.layer).mixer;
    if (!tried.emplace(shard.kind, mixer).second) continue;
    MOEC_ASSIGN(const CompiledShard compiled, compile_for_export(plan, i, options.compile));
    MOEC_TRY(part(i, compiled, options, {}));
  }
  return {};
}

Result<std::vector<manifest::FileRef>> DecoderExport::write(
    const Manifest& manifest, std::map<std::string, DecoderPart> parts,
    const ExportOptions& options) const {
  const OutputOptions& output = options.output;
  const ModelConfig& model = one_token_.model;
  MOEC_ASSIGN(const std::string graph,
              decoder_graph({manifest, std::move(parts), layers_with_latents(model)}));
  const GenaiDecoder decoder{"decoder", {{"filename", kModelFile}}};
  MOEC_ASSIGN(const std::string config,
              genai_config(manifest, model, decoder, options.source.path));
  std::vector<manifest::FileRef> files;
  for (const auto& [name, text] :
       {std::pair(kModelFile, graph), std::pair(kGenaiConfigFile, config)}) {
    MOEC_ASSIGN(manifest::FileRef file,
                manifest::write_listed_file(output.folder, name, text, output.sha256));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace moec
