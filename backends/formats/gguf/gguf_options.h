// What a user may choose of GGUF files.
#pragma once

#include <cstdint>

namespace moec {

struct GgufOptions {
  // The most bytes of a file. A model with more is spread over several; a tensor is not.
  uint64_t max_file_bytes = UINT64_MAX;
  bool tokenizer = true;  // false: the files take token ids, not text
};

}  // namespace moec
