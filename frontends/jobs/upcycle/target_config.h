// The config.json of the new model, from that of the dense one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "frontends/jobs/upcycle/target_arch.h"
#include "frontends/sources/hf/config.h"

namespace moec {

// What of the new model is decided; all sizes are resolved.
struct ExpertSizes {
  int64_t experts = 0, top_k = 0;
  int64_t expert_ff = 0;  // hidden units of an expert
  int64_t shared_ff = 0;  // of the shared expert; 0: none
  bool normalised = true;
  std::vector<bool> layers;  // which have experts
};

// The keys of the new model. What the config of the dense model leaves to the defaults of its class
// is written out, because those of another class differ. `raw` is the dense model's own config.
nlohmann::ordered_json target_config(const TargetArch& arch, const ExpertSizes& sizes,
                                     const HfConfig& dense, const nlohmann::ordered_json& raw);

}  // namespace moec
