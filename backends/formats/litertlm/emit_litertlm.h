// Emits a .litertlm file, which LiteRT-LM runs: metadata, tokenizer and model in one file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/emit/emit.h"
#include "backends/formats/litertlm/decoder_model.h"
#include "backends/weights/views/weight_reader.h"

namespace moec {

// Among the `k` tokens of the largest logits, the first ones whose probabilities sum up to `p`.
struct LitertlmSampling {
  int64_t k = 0;
  double p = 1;
  double temperature = 1;
};

struct LitertlmText {
  std::string tokenizer;               // of tokenizer.json; empty: none
  std::optional<int64_t> start_token;  // precedes each text
  std::vector<int64_t> end_tokens;
  std::string chat_template;                 // Jinja; empty: none
  int64_t max_tokens = 0;                    // of a text, with its answer
  std::optional<LitertlmSampling> sampling;  // none: greedy
};

// Writes options.folder/options.stem. The model must have passed check_decoder(). The output is
// deterministic. The file gets its final name when it is complete. Errors: litertlm.compress,
// emit.graph_too_large, and those of OutputFile and WeightReader.
Result<EmittedFile> emit_litertlm(const DecoderModel& model, const LitertlmText& text,
                                  const WeightReader& weights, const EmitOptions& options);

}  // namespace moec
