// Plan of an upcycling, made without reading any payload.
#pragma once

#include <string>
#include <vector>

#include "frontends/checkpoint/tensor_recipe.h"
#include "frontends/jobs/upcycle/upcycle_algebra.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Key of the provenance in a new config.json.
inline constexpr const char* kProvenanceKey = "moec_upcycle";

struct UpcyclePlan {
  ModelConfig source, result;  // the result is read back from its config
  std::string config_text;
  std::vector<NewTensor> tensors;
  WeightTable weights;  // source tensors of the pieces
  int64_t group = 1;    // consecutive experts with equal router rows
  PartFactors factors;  // of an expert's matrices
  ExactClass exact;
  int64_t experts_before = 0;  // experts per layer of an MoE source; 0 for a dense source
  Diagnostics notes;
};

// Plans the experts of a dense model. Errors: those of open_models() and resolve_shape(), and
//   upcycle.arch   the requested architecture cannot represent the model, or none can; the message
//   lists the misfits, and the architectures that can
Result<UpcyclePlan> plan_upcycle(const UpcycleOptions& options);

// Plans copies of the experts of an MoE source. Errors: those of open_models(), and
//   upcycle.experts, upcycle.top_k  more picks than experts
//   upcycle.unsupported_router      copies of an expert would not be equivalent under this router
//   upcycle.from_moe                options that apply to dense sources only
Result<UpcyclePlan> plan_multiplied(const UpcycleOptions& options);

}  // namespace moec
