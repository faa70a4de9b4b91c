// Computes the bytes of weights from a model's sizes and BuildOptions::weights, for cutting a model
// before there are shards to measure.
#pragma once

#include <array>
#include <vector>

#include "ir/model/plan.h"
#include "models/plan/mlp_elements.h"

namespace moec {

// Returns a form that approximates the bytes of the checkpoint's codes, scales and zero points for
// matrices of the group. Float if the checkpoint stores plain weights. A Hugging Face config does
// not state which groups are quantized. Assumption: fp8_blocks covers all linear maps except the
// head; the other codings cover at least the experts.
WeightForm stored_form(const StoredWeights& stored, WeightGroup group);

// Upper bounds: if layers store a group in different forms, the largest form is used.
class WeightSizes {
 public:
  WeightSizes(const ModelConfig& model, const BuildOptions& build);

  // Bytes of weights that stay float.
  int64_t plain(int64_t elements) const { return elements * dtype_bytes(dtype_); }
  // Bytes of a matrix of the group.
  int64_t matrix(WeightGroup group, int64_t rows, int64_t inputs) const;
  // Bytes of `columns` of the intermediate width of a gated MLP or an expert.
  int64_t mlp(WeightGroup group, const MlpElements& mlp, int64_t columns) const;
  int64_t whole(WeightGroup group, const MlpElements& all) const {
    return mlp(group, all, all.width);
  }
  // Bytes of the maps to and from the experts' latent, `elements` weights (MoeElements::latent).
  int64_t latent(int64_t elements) const;
  // Bytes of `rows` rows of the output head, without its norm.
  int64_t head(int64_t rows) const;
  // Bytes of a layer of `elements` weights.
  int64_t layer(int64_t number, int64_t elements) const {
    return plain(elements) - saved_in_layer(number);
  }

 private:
  // The form of the group's weights in files; stored_form() for copied codes.
  WeightForm filed(const WeightForm& form, WeightGroup group) const;
  int64_t matrix_in(const WeightForm& form, int64_t rows, int64_t inputs) const;
  // Bytes of the largest expert among those with chosen bits.
  int64_t chosen_expert(int64_t columns) const;
  int64_t saved_in_layer(int64_t layer) const;

  const ModelConfig& model_;
  const WeightPolicy& policy_;
  DType dtype_;
  std::array<std::vector<WeightForm>, enum_count<WeightGroup>>
      forms_;  // forms per group, without duplicates
};

}  // namespace moec
