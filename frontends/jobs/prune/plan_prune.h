// Plan of a pruning, made without reading any payload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/checkpoint/tensor_recipe.h"
#include "frontends/jobs/prune/choose_experts.h"
#include "frontends/jobs/prune/prune_options.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/kept_routing.h"
#include "ir/model/model_config.h"

namespace moec {

// Key of the provenance in a new config.json.
inline constexpr const char* kPruneKey = "moec_prune";

// Bytes of the tensors of routed experts, and of all tensors.
struct CheckpointBytes {
  uint64_t experts = 0, all = 0;
};

struct PrunePlan {
  ModelConfig source, result;  // the result is read back from its config
  PruneChoice choice;
  KeptRouting routing = KeptRouting::masked;
  std::string config_text;
  std::vector<NewTensor> tensors;  // in the order of the source's files
  WeightTable weights;             // of the source
  CheckpointBytes before, after;
  Diagnostics notes;
};

// Errors: those of open_source(), read_config() and choose_experts(), and
//   prune.source_gguf  the source is a GGUF file
//   prune.no_experts   the model has no routed experts
//   prune.config       the config states the number of experts as a list, inside of an object, or
//                      names single experts
//   prune.tensor       a tensor cannot be copied, or its experts cannot be separated
// Notes and warnings: those of open_source(), and
//   prune.inflated          routing weights grow without the removed experts (KeptRouting)
//   prune.other_checkpoint  the profile was measured on another checkpoint
//   prune.unused            the profile's text selected none of some kept experts
//   prune.left_out          tensors with experts that only other programs use, such as those of
//                           multi-token prediction
Result<PrunePlan> plan_prune(const PruneOptions& options);

}  // namespace moec
