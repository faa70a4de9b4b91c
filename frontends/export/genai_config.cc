#include "frontends/export/genai_config.h"

#include "frontends/export/sampling_defaults.h"
#include "ir/base/at.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

// Without settings for sampling the engine is greedy. At temperature 0 the engine is greedy, too. A
// top_k of 0 sets no limit, but is greedy without a top_p (onnxruntime-genai 0.18).
Status add_sampling(const std::string& source, ordered_json& search) {
  MOEC_ASSIGN(const SamplingDefaults sampling, sampling_defaults(source));
  if (sampling.do_sample) search["do_sample"] = *sampling.do_sample;
  if (sampling.temperature) search["temperature"] = *sampling.temperature;
  if (sampling.top_p) search["top_p"] = *sampling.top_p;
  if (sampling.top_k) search["top_k"] = *sampling.top_k;
  if (sampling.top_k == 0 && !sampling.top_p) search["top_p"] = 1;
  return {};
}

}  // namespace

std::set<int64_t> layers_with_latents(const ModelConfig& model) {
  std::set<int64_t> layers;
  for (int64_t layer = 0; layer < std::ssize(model.layers); ++layer) {
    const LayerConfig& config = at(model.layers, layer);
    const AttentionConfig& attention = model.attention_of(config);
    if (config.mixes() && !is_recurrent(config.mixer) && attention.latent &&
        !attention.latent->expanded)
      layers.insert(layer);
  }
  return layers;
}

// Without end tokens the engine ends texts at the pad id, by default 0, a common token; the last id
// is the least likely to be one. Otherwise the pad id has no effect, because the graphs return only
// the logits of the last token.
Result<std::string> genai_config(const Manifest& manifest, const ModelConfig& model,
                                 const GenaiDecoder& decoder, const std::string& source) {
  const AttentionConfig& attention = model.attention;
  ordered_json described = {{"type", decoder.type},
                            {"vocab_size", model.vocab},
                            {"context_length", manifest.build.context}};
  if (manifest.model.eos_tokens.empty())
    described["pad_token_id"] = model.vocab - 1;
  else
    described["eos_token_id"] = manifest.model.eos_tokens;
  ordered_json& written = described["decoder"] = decoder.keys;
  written["head_size"] = attention.head_dim;
  written["hidden_size"] = model.hidden;
  written["num_attention_heads"] = attention.heads;
  written["num_key_value_heads"] = attention.kv_heads;
  written["num_hidden_layers"] = model.layers.size();
  // Caches grow by Concat, or have a fixed size that the engine finds in the graph.
  ordered_json search = {{"max_length", manifest.build.context},
                         {"past_present_share_buffer", false}};
  MOEC_TRY(add_sampling(source, search));
  return json_text({{"model", described}, {"search", search}}) + "\n";
}

}  // namespace moec
