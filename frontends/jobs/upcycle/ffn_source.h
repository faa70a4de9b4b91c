// The feed-forward parts of one model, which become experts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "frontends/jobs/upcycle/tensor_recipe.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Adds the tensors of `from` to `to`, each as PREFIX + name.
void add_tensors(WeightTable& to, const WeightTable& from, const std::string& prefix);

// The matrices of a layer: gate and up [f, d], down [d, f].
struct FfnParts {
  std::optional<MatrixPart> gate;
  MatrixPart up, down;
};

struct FfnSource {
  ModelConfig model;
  std::string prefix;                                    // of its tensors in the table
  std::map<std::string, LowRank, std::less<>> adapters;  // by the tensor's own name

  // The matrices of a dense layer; `weights` has the tensors.
  FfnParts parts(const WeightTable& weights, int64_t layer) const;

 private:
  MatrixPart matrix(const WeightTable& weights, const std::string& role, int64_t layer) const;
};

// The roles that a dense feed-forward part may have.
bool is_ffn_role(std::string_view role);

}  // namespace moec
