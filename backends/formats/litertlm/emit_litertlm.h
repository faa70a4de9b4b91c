// Emits a .litertlm file, which LiteRT-LM runs: metadata, tokenizer and model in one file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/emit/emit.h"
#include "backends/formats/litertlm/decoder_model.h"
#include "backends/weights/views/weight_reader.h"

namespace moec {

struct LitertlmText {
  std::string tokenizer;               // of tokenizer.json; empty: none
  std::optional<int64_t> start_token;  // precedes each text
  std::vector<int64_t> end_tokens;
  std::string chat_template;  // Jinja; empty: none
  int64_t max_tokens = 0;     // of a text, with its answer
};

// Writes options.folder/options.stem. The model must have passed check_decoder(). The output is
// deterministic. The file gets its final name when it is complete. Errors: litertlm.compress,
// emit.graph_too_large, and those of OutputFile and WeightReader.
Result<EmittedFile> emit_litertlm(const DecoderModel& model, const LitertlmText& text,
                                  const WeightReader& weights, const EmitOptions& options);

}  // namespace moec
