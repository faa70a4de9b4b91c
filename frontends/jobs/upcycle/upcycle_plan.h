// What an upcycling writes, before any payload is read.
#pragma once

#include <string>
#include <vector>

#include "frontends/jobs/upcycle/tensor_recipe.h"
#include "frontends/jobs/upcycle/upcycle_algebra.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// The key of a new config.json that says where the model comes from.
inline constexpr const char* kProvenanceKey = "moec_upcycle";

struct UpcyclePlan {
  ModelConfig source, result;  // the result as its config is read
  std::string config_text;
  std::vector<NewTensor> tensors;
  WeightTable weights;  // that the tensors are made of
  int64_t group = 1;    // experts with equal router rows that lie side by side
  PartFactors factors;  // of an expert's matrices
  ExactClass exact;
  int64_t experts_before = 0;  // of a source that has some
  Diagnostics notes;
};

// Plans the experts of a dense model. Errors: those of open_models() and resolve_shape(), and
//   upcycle.arch   no architecture, or not the one that was asked for, can hold the model; names
//                  what does not fit, and those that can
Result<UpcyclePlan> plan_upcycle(const UpcycleOptions& options);

// Plans copies of the experts of a model that has some. Errors: those of open_models(), and
//   upcycle.experts, upcycle.top_k  more picks than experts
//   upcycle.unsupported_router      a router whose copies would be no copies
//   upcycle.from_moe                options that only a dense source takes
Result<UpcyclePlan> plan_multiplied(const UpcycleOptions& options);

}  // namespace moec
