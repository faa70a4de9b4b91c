// The tokens that end a text in llama.cpp: those of keys, and those that it knows by their text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/formats/gguf/gguf_values.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The ids of those of `tokens`, by id, that llama.cpp takes for ends of a text because of their
// text alone. Ascending. Of several tokens for one place of fill-in-the-middle llama.cpp takes one,
// here all count. Source: llama_vocab_is_eog() of the build that tests/peers/requirements.txt
// names, asked for every text that its library holds (tests/peers/test_gguf_ends.py).
template <class Text>
std::vector<int64_t> ends_by_text(const std::vector<Text>& tokens);

// The tokens that end a text by the keys eos, eot, eom and fim_pad, fim_rep, fim_sep of
// "tokenizer.ggml.*_token_id", and by their text. Ascending, each once; empty if the file has no
// tokens. Errors: gguf.key_type.
Result<std::vector<int64_t>> gguf_ends(const GgufValues& values);

}  // namespace moec
