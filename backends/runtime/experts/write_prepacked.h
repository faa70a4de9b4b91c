// Writes a file of prepacked experts (prepacked_file.h) from an export.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/runtime/experts/prepacked_file.h"

namespace moec {

struct PrepackChoice {
  int64_t capacity = 0;          // maximum experts per layer
  int64_t pin_top_k = 0;         // number of them to pin
  std::vector<ExpertId> wanted;  // by layer, most wanted first
  std::function<bool()> stop;    // polled before each piece; returning true aborts. May be empty
  // Receives the bytes written since its previous call, the total, and the file. May be empty.
  std::function<void(uint64_t bytes, uint64_t total, const std::string& file)> progress;
};

// Error code of a prepack that PrepackChoice::stop aborted.
inline constexpr const char* kPrepackInterrupted = "prepack.interrupted";

// Writes `file` atomically and returns its table: the file appears under its name only after all
// bytes are on disk. Errors: those of ExpertPlaces, PayloadFile and OutputFile; prepack.empty (no
// wanted expert is in the export); prepack.out (the path exists and is not a regular file);
// prepack.pin_top_k (the pinned experts leave no room for a token's other experts),
// kPrepackInterrupted.
Result<PrepackedTable> write_prepacked(const Manifest& manifest, const std::string& folder,
                                       const PrepackChoice& choice, const std::string& file);

}  // namespace moec
