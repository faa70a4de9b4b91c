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
  int64_t capacity = 0;          // experts of each layer, at most
  int64_t pin_top_k = 0;         // of these, how many are pinned
  std::vector<ExpertId> wanted;  // of each layer the most wanted first
  std::function<bool()> stop;    // asked before each piece; true ends the work. May be empty
};

// The code of the error that ends a prepack when PrepackChoice::stop returns true.
inline constexpr const char* kPrepackInterrupted = "prepack.interrupted";

// The file has its name only when it is complete and on the disk. Returns its table. Errors: those
// of ExpertPlaces, PayloadFile and OutputFile; prepack.empty (no expert is wanted), prepack.out
// (the name is that of a folder, a device or a link), prepack.pin_top_k (the pinned experts leave a
// token's others no room), kPrepackInterrupted.
Result<PrepackedTable> write_prepacked(const Manifest& manifest, const std::string& folder,
                                       const PrepackChoice& choice, const std::string& file);

}  // namespace moec
