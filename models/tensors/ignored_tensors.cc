#include "models/tensors/ignored_tensors.h"

#include "models/tensors/wildcard.h"

namespace moec {

const std::string* ignoring_pattern(const ModelConfig& model, const std::string& tensor) {
  // Reports show the first matching pattern as the reason.
  for (const std::string& pattern : model.names.ignored)
    if (matches_wildcard(tensor, pattern)) return &pattern;
  return nullptr;
}

}  // namespace moec
