// The tokens that end a text, as the files of a checkpoint name them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// `eos_token_id` of generation_config.json beside the config, and, where that gives none, of the
// config: one id, a list, or null for none. Ascending, each once. As in transformers, an id outside
// the vocabulary ends nothing: it is left out, with the warning export.eos_token, and so is a value
// of another type. Errors: those of reading a file, and json.*.
Result<std::vector<int64_t>> read_eos_tokens(const std::string& config_path, int64_t vocab,
                                             Diagnostics& warnings);

// The same of the text of one config; `file` is for messages.
Result<std::vector<int64_t>> eos_tokens_of(std::string_view text, const std::string& file,
                                           int64_t vocab, Diagnostics& warnings);

}  // namespace moec
