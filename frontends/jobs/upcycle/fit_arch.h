// Whether an architecture can hold a dense model: its config, read back, must be the dense model
// but for the feed-forward parts of the layers that get experts.
#pragma once

#include <string>
#include <vector>

#include "ir/model/model_config.h"

namespace moec {

// What of the dense model the new one lacks or changes, in words: "norms of queries and keys".
// Biases that only the new model has are zeros and no misfit.
std::vector<std::string> misfits(const ModelConfig& dense, const ModelConfig& moe);

}  // namespace moec
