#include "frontends/export/litertlm_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/emit/element_bytes.h"
#include "backends/formats/litertlm/emit_litertlm.h"
#include "backends/formats/tflite/check_tflite.h"
#include "backends/tokenizer/tokenizer.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/export/gguf/chat_templates.h"
#include "frontends/export/sampling_defaults.h"
#include "frontends/sources/open_source.h"
#include "ir/base/at.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"
#include "models/tensors/rope.h"
#include "models/tensors/seeded_weights.h"

namespace moec {
namespace {

constexpr uint64_t kMaxConfigBytes = 16u << 20;

tl::unexpected<Diagnostics> cannot_pack(std::string cause, std::string next) {
  return fail("litertlm.form", std::move(cause), std::move(next));
}

Status check_options(const Plan& plan, const CompileOptions& compile) {
  const std::vector<int64_t>& tokens = plan.build.tokens;
  if (std::find(tokens.begin(), tokens.end(), 1) == tokens.end())
    return cannot_pack("LiteRT-LM decodes one token at a time", "add 1 to --tokens");
  if (const int64_t widest = *std::max_element(tokens.begin(), tokens.end());
      plan.build.context <= widest)
    return cannot_pack(fmt::format("a context of {} does not exceed the {} tokens of a step",
                                   plan.build.context, widest),
                       "raise --context");
  if (plan.build.host_routing)
    return cannot_pack("LiteRT-LM runs whole models, without routing by the host",
                       "omit --routing host");
  if (!plan.build.experts.top_k.empty())
    return cannot_pack("the file has one graph per width, without top-k variants", "omit --top-k");
  if (compile.passes.capacity > 0)
    return cannot_pack("LiteRT-LM pads prompts, and padding would take places of --capacity",
                       "omit --capacity");
  if (!compile.calibration.empty())
    return cannot_pack("weights with a calibration are written to shards only",
                       "omit --calibration");
  return {};
}

Status check_task(const ModelConfig& model) {
  if (model.keeps_cache() && model.head.task == Task::text_generation) return {};
  return fail(
      "litertlm.family",
      fmt::format("{} does not generate text token by token, which is all that LiteRT-LM does",
                  model.family),
      "export for target litert");
}

// The widths of the graphs: those of prompts, then 1. A prompt needs at least one graph.
std::vector<int64_t> graph_widths(const Plan& plan) {
  std::vector<int64_t> widths;
  for (const int64_t tokens : plan.build.tokens)
    if (tokens > 1) widths.push_back(tokens);
  if (widths.empty()) widths.push_back(1);
  widths.push_back(1);
  return widths;
}

// The compiled shards that the graphs of a model refer to.
class CompiledDecoder {
 public:
  explicit CompiledDecoder(const Manifest& manifest, const Plan& plan)
      : plan_(plan), model_{{manifest, plan.build.context, {}}, {}} {}

  const DecoderModel& model() const { return model_; }
  DecoderTables& tables() { return model_.facts.tables; }

  // Adds the shards for which `wanted` is true to the graphs of all widths.
  template <class Wanted>
  Status compile(const CompileOptions& options, Wanted wanted) {
    const std::vector<int64_t> widths = graph_widths(plan_);
    for (size_t i = 0; i < widths.size(); ++i) {
      SignatureGraph& graph = model_.graphs.emplace_back();
      graph.tokens = widths[i];
      Plan sample = plan_;
      sample.build.tokens = {widths[i]};
      sample.build.context = plan_.build.context - widths[i];
      const bool decodes = i + 1 == widths.size();
      for (size_t index = 0; index < sample.shards.size(); ++index)
        if (wanted(index) && (decodes || !is_head(sample.shards[index].kind)))
          MOEC_TRY(add(sample, index, options, graph));
    }
    return check_decoder(model_);
  }

 private:
  Status add(const Plan& sample, size_t index, const CompileOptions& options,
             SignatureGraph& graph) {
    MOEC_ASSIGN(CompiledShard shard,
                compile_shard(sample, index, options.passes, RunOptions(), options.folds));
    shards_.push_back(std::make_unique<Shard>(std::move(shard.widths.front())));
    MOEC_TRY(check_tflite(*shards_.back()));
    graph.shards[sample.shards[index].name] = shards_.back().get();
    return {};
  }

  const Plan& plan_;
  DecoderModel model_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

Result<DecoderTables> tables_of(const Plan& plan) {
  DecoderTables tables;
  const WeightView& view = plan.embedding;
  MOEC_ASSIGN(tables.embedding_type, view_type(view));
  tables.embedding = {plan.weight_seed ? seeded_weights(view, *plan.weight_seed) : view};
  const DType dtype = plan.build.dtype;
  const int64_t rows = plan.build.context;
  const auto bytes_of = [&](const std::vector<float>& values) {
    return element_bytes(dtype, std::vector<double>(values.begin(), values.end()));
  };
  if (plan.model.attention.rope.style != RopeStyle::none)
    for (const RopeTable& table : rope_tables(plan.model, rows))
      tables.rotations.push_back({table.width, bytes_of(table.cos), bytes_of(table.sin)});
  if (const auto& temperature = plan.model.attention.temperature) {
    std::vector<double> scales;
    for (int64_t position = 0; position < rows; ++position)
      scales.push_back(query_scale(*temperature, position));
    tables.query_scale = element_bytes(dtype, scales);
  }
  return tables;
}

// LiteRT-LM passes the content of a message as a list of parts, but templates of text models
// concatenate it as a string.
constexpr std::string_view kJoinParts = R"({%- set joined = namespace(messages=[]) -%}
{%- for message in messages -%}
  {%- set text = namespace(all='') -%}
  {%- if message.content is string -%}
    {%- set text.all = message.content -%}
  {%- elif message.content -%}
    {%- for part in message.content -%}
      {%- if part.type == 'text' -%}{%- set text.all = text.all + part.text -%}{%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {%- set joined.messages = joined.messages + [dict(message, content=text.all)] -%}
{%- endfor -%}
{%- set messages = joined.messages -%})";

// The template of a chat; empty if the folder has none.
Result<std::string> chat_template_of(const std::string& folder) {
  const std::string path = folder + "/tokenizer_config.json";
  std::string text = "{}";
  if (file_exists(path)) {
    MOEC_ASSIGN(text, read_text_file(path, kMaxConfigBytes));
  }
  MOEC_ASSIGN(const JsonValue config, parse_json(text, {.file = path}));
  MOEC_ASSIGN(const std::vector<GgufEntry> entries, chat_template_keys(folder, config));
  const GgufEntry* found = find_entry(entries, "tokenizer.chat_template");
  const auto* chat = found ? std::get_if<std::string>(&found->value) : nullptr;
  return chat ? std::string(kJoinParts) + *chat : std::string();
}

// A text's tokens begin with this one if the tokenizer adds it to an empty text.
Result<std::optional<int64_t>> start_token_of(const Tokenizer& tokenizer) {
  MOEC_ASSIGN(const std::vector<int64_t> tokens, tokenizer.encode("", SpecialTokens::add));
  return tokens.empty() ? std::optional<int64_t>() : tokens.front();
}

// The checkpoint's sampling; none if it is greedy. Absent settings have the defaults of
// transformers' GenerationConfig.
Result<std::optional<LitertlmSampling>> sampling_of(const std::string& source, int64_t vocab) {
  MOEC_ASSIGN(const SamplingDefaults defaults, sampling_defaults(source));
  LitertlmSampling sampling;
  sampling.temperature = defaults.temperature.value_or(1);
  if (!defaults.do_sample.value_or(false) || sampling.temperature == 0)
    return std::optional<LitertlmSampling>();
  constexpr int64_t kDefaultTopK = 50;
  const int64_t limit = defaults.top_k.value_or(kDefaultTopK);
  sampling.k = limit == 0 ? vocab : std::min(limit, vocab);
  sampling.p = defaults.top_p.value_or(1);
  return std::optional(sampling);
}

Result<LitertlmText> text_of(const Manifest& manifest, const ExportOptions& options,
                             int64_t max_tokens) {
  const std::string& folder = options.output.folder;
  LitertlmText text;
  text.max_tokens = max_tokens;
  MOEC_ASSIGN(text.sampling, sampling_of(options.source.path, manifest.logits.vocab));
  text.end_tokens = manifest.model.eos_tokens;
  // LiteRT-LM requires an end token. The last id is the least likely one.
  if (text.end_tokens.empty()) text.end_tokens = {manifest.logits.vocab - 1};
  const std::string path = folder + "/tokenizer.json";
  if (!file_exists(path)) return text;
  MOEC_ASSIGN(text.tokenizer, read_text_file(path, kMaxTokenizerBytes));
  MOEC_ASSIGN(const Tokenizer tokenizer, Tokenizer::parse(text.tokenizer, path));
  MOEC_ASSIGN(text.start_token, start_token_of(tokenizer));
  MOEC_ASSIGN(text.chat_template, chat_template_of(folder));
  return text;
}

}  // namespace

bool packs_litertlm(const Target& target) {
  return target.engine.decoder_graph && target.format == ShardFormat::tflite;
}

Status check_litertlm(const Plan& plan, const Manifest& manifest, const CompileOptions& compile) {
  MOEC_TRY(check_task(plan.model));
  MOEC_TRY(check_options(plan, compile));
  std::set<std::pair<ShardKind, MixerKind>> tried;
  std::set<size_t> firsts;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardDecl& shard = plan.shards[i];
    const MixerKind mixer =
        shard.layer < 0 ? MixerKind::attention : at(plan.model.layers, shard.layer).mixer;
    if (tried.emplace(shard.kind, mixer).second) firsts.insert(i);
  }
  return CompiledDecoder(manifest, plan).compile(compile, [&](size_t index) {
    return firsts.contains(index);
  });
}

Result<manifest::FileRef> write_litertlm(const Manifest& manifest, const ExportJob& job) {
  const OutputOptions& output = job.options.output;
  const BuildOptions& build = job.plan.build;
  CompiledDecoder decoder(manifest, job.plan);
  MOEC_ASSIGN(decoder.tables(), tables_of(job.plan));
  MOEC_TRY(decoder.compile(job.options.compile, [](size_t) { return true; }));
  // The last step of a prompt may be padded, and its rows must fit into the cache.
  const int64_t widest = *std::max_element(build.tokens.begin(), build.tokens.end());
  MOEC_ASSIGN(const LitertlmText text, text_of(manifest, job.options, build.context - widest + 1));
  EmitOptions emit{.folder = output.folder, .stem = kLitertlmFile, .sha256 = output.sha256};
  int64_t total = 0;
  for (const manifest::Shard& shard : manifest.shards) total += shard.weight_bytes;
  // The shards' files are complete, so this is a second phase with another total.
  emit.on_progress = [&](uint64_t bytes) {
    if (const ProgressCallback& progress = job.options.callbacks.progress)
      progress(bytes, static_cast<uint64_t>(total), std::string(kLitertlmFile));
    return job.check_not_stopped();
  };
  MOEC_ASSIGN(const EmittedFile file, emit_litertlm(decoder.model(), text, job.reader, emit));
  MOEC_TRY(job.reader.check_unchanged());
  return manifest::FileRef{file.path, static_cast<int64_t>(file.bytes), file.digest, file.sha256};
}

}  // namespace moec
