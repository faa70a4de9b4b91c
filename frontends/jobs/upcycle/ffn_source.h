// Feed-forward parts of one model, the sources of experts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "frontends/checkpoint/tensor_recipe.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Adds the tensors of `from` to `to`, with `prefix` before each name.
void add_tensors(WeightTable& to, const WeightTable& from, const std::string& prefix);

// Matrices of one layer: gate and up [f, d], down [d, f].
struct FfnParts {
  std::optional<MatrixPart> gate;
  MatrixPart up, down;
};

struct FfnSource {
  ModelConfig model;
  std::string prefix;                                    // of the model's tensor names in the table
  std::map<std::string, LowRank, std::less<>> adapters;  // by tensor name without prefix

  // Returns the matrices of a dense layer, looked up in `weights`.
  FfnParts parts(const WeightTable& weights, int64_t layer) const;

 private:
  MatrixPart matrix(const WeightTable& weights, const std::string& role, int64_t layer) const;
};

// True if the role belongs to a dense feed-forward part.
bool is_ffn_role(std::string_view role);

}  // namespace moec
