// Reads the tokens that end a text from the files of a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Returns the distinct ids, in ascending order, of `eos_token_id` in generation_config.json next to
// the config, or in the config if the former has none. The value is one id, a list or null. Ids
// outside the vocabulary, which can never be sampled, and values of another type are omitted with
// the warning export.eos_token. Adds the note export.no_end if neither file has the key. Errors:
// those of reading a file, and json.*.
Result<std::vector<int64_t>> read_eos_tokens(const std::string& config_path, int64_t vocab,
                                             Diagnostics& warnings);

// Like read_eos_tokens(), for the text of one config. `file` is the name in messages.
Result<std::vector<int64_t>> eos_tokens_of(std::string_view text, const std::string& file,
                                           int64_t vocab, Diagnostics& warnings);

}  // namespace moec
