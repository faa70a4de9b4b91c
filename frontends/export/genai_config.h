// Facts about a model for onnxruntime-genai.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

inline constexpr const char* kGenaiConfigFile = "genai_config.json";

// The engine's class of models, and the keys of `decoder` that depend on it.
struct GenaiDecoder {
  std::string type;
  nlohmann::ordered_json keys;
};

// Returns the text of genai_config.json, with the sampling defaults of generation_config.json in
// the folder of `source`: do_sample, temperature, top_p, and top_k, if they are in the engine's
// ranges. The engine refuses keys that it does not know, so the file has nothing else. Errors:
// json.* and those of read_text_file(), for generation_config.json.
Result<std::string> genai_config(const Manifest& manifest, const ModelConfig& model,
                                 const GenaiDecoder& decoder, const std::string& source);

// Layers whose cached values are the last channels of their cached keys (latent_attention.h).
std::set<int64_t> layers_with_latents(const ModelConfig& model);

}  // namespace moec
