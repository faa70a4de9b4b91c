// Finds the tokens that end a text in llama.cpp, by keys and by token text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/formats/gguf/gguf_values.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Returns, in ascending order, the ids of tokens that llama.cpp treats as ends of a text because of
// their text alone. `tokens` is indexed by id. Returns all candidates for a fill-in-the-middle
// token, although llama.cpp uses only one of them. Source: llama_vocab_is_eog() of the build in
// tests/peers/requirements.txt, queried with every text in the library
// (tests/peers/test_gguf_ends.py).
template <class Text>
std::vector<int64_t> ends_by_text(const std::vector<Text>& tokens);

// Returns the distinct ids, in ascending order, of the tokens that end a text: by token text, and
// by the keys "tokenizer.ggml.*_token_id" for eos, eot, eom, fim_pad, fim_rep and fim_sep. Error:
// gguf.key_type.
Result<std::vector<int64_t>> gguf_ends(const GgufValues& values);

}  // namespace moec
