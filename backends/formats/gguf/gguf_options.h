// Options of GGUF exports.
#pragma once

#include <cstdint>

namespace moec {

struct GgufOptions {
  // Maximum bytes per file. A larger model is split over several files, between tensors.
  uint64_t max_file_bytes = UINT64_MAX;
  bool tokenizer = true;  // false: the files have no tokenizer, so runtimes need token ids
};

}  // namespace moec
