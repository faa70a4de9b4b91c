// What an analysis measured, before anything is derived from it.
#pragma once

#include <functional>

#include "frontends/measure/layer_counter.h"

namespace moec {

struct Measurement {
  std::string model;       // its family
  std::string checkpoint;  // ExpertProfile::checkpoint
  std::string source;      // ExpertProfile::source
  int64_t experts = 0, top_k = 0;
  AnalysisText text;
  std::vector<LayerMeasurement> layers;  // ascending
  Diagnostics notes;
};

// As many pairs as one profile takes (expert_profile.h); a larger model's are not counted.
inline constexpr int64_t kMostPairs = int64_t{1} << 23;

// The error analyze.interrupted where the options say so.
Status check_not_stopped(const AnalyzeOptions& options);

// Error analyze.no_experts for a model without MoE layers.
Status check_has_experts(int64_t layers, const std::string& source);

// Whether pairs are counted; else the notes say why not.
bool counts_pairs(int64_t layers, int64_t experts, Diagnostics& notes);

}  // namespace moec
