// Counts the bytes of weights from a model's sizes, as BuildOptions::weights stores them: for
// cutting a model before there are shards that could be measured.
#pragma once

#include <array>
#include <vector>

#include "ir/model/plan.h"
#include "models/plan/mlp_elements.h"

namespace moec {

// Upper bounds: where layers store a group in different forms, the largest counts.
class WeightSizes {
 public:
  WeightSizes(const ModelConfig& model, const BuildOptions& build);

  // Weights that stay float.
  int64_t plain(int64_t elements) const { return elements * dtype_bytes(dtype_); }
  // A matrix of the group.
  int64_t matrix(WeightGroup group, int64_t rows, int64_t inputs) const;
  // `columns` of the intermediate width of a gated MLP or an expert.
  int64_t mlp(WeightGroup group, const MlpElements& mlp, int64_t columns) const;
  int64_t whole(WeightGroup group, const MlpElements& all) const {
    return mlp(group, all, all.width);
  }
  // The maps around the latent of the experts, which have so many weights (MoeElements::latent).
  int64_t latent(int64_t elements) const;
  // So many rows of the output head, without its norm.
  int64_t head(int64_t rows) const;
  // A whole layer, which has so many weights.
  int64_t layer(int64_t number, int64_t elements) const {
    return plain(elements) - saved_in_layer(number);
  }

 private:
  // The form that weights of the group have in files: copied codes are those of the checkpoint.
  WeightForm filed(const WeightForm& form, WeightGroup group) const;
  int64_t matrix_in(const WeightForm& form, int64_t rows, int64_t inputs) const;
  // The matrices of the largest expert whose bits were chosen.
  int64_t chosen_expert(int64_t columns) const;
  int64_t saved_in_layer(int64_t layer) const;

  const ModelConfig& model_;
  const WeightPolicy& policy_;
  DType dtype_;
  std::array<std::vector<WeightForm>, enum_count<WeightGroup>> forms_;  // of each group, each once
};

}  // namespace moec
