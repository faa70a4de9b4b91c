// Counts the use of one MoE layer's experts on a text. Experts can be reported in any order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "frontends/measure/observer.h"

namespace moec {

// Sums of squared inputs of expert matrices over the tokens of each expert, [experts][columns], as
// in importance matrices.
struct ImatrixSums {
  std::vector<std::vector<float>> input;  // inputs of gate and up
  std::vector<std::vector<float>> inner;  // inputs of down

  explicit ImatrixSums(int64_t experts)
      : input(static_cast<size_t>(experts)), inner(static_cast<size_t>(experts)) {}
};

// Adds the squares of a row to `sums`, which has one sum per column or is empty.
void add_squares(std::vector<float>& sums, std::span<const float> row);

// An expert chosen by a token. Token numbers continue across windows.
struct ExpertChoice {
  int64_t token = 0;
  int64_t expert = 0;
  double weight = 0;
};

// Measurements of a layer in addition to its profile.
struct LayerMeasurement {
  LayerProfile profile;
  std::vector<std::vector<int64_t>> by_document;  // selections, [documents][experts]
  std::array<std::vector<int64_t>, 2> halves;     // selections per half, [experts]
  std::vector<int64_t> reuse;  // reuse[d]: selections of the expert at recency rank d
  std::optional<ImatrixSums> sums;
  std::vector<ExpertChoice> choices;  // by token, then expert
};

// Data that a counter receives. Lists for other data stay empty in the profile.
struct CountedParts {
  bool outputs = true, activations = true, pairs = true;
  bool sums = false;  // sums for an imatrix
};

class LayerCounter {
 public:
  // `text` must outlive the object.
  LayerCounter(int64_t layer, int64_t experts, const Text& text, CountedParts parts);

  // Adds an expert chosen by a token. Token numbers continue across windows.
  void choose(int64_t token, int64_t expert, double weight);
  // Adds an output f(x) of an expert: `norm` is the norm of f(x), `added_norm` that of its
  // contribution to the layer's output.
  void add_output(int64_t expert, double norm, double added_norm);
  void add_activations(int64_t expert, std::span<const float> inner);
  // Adds choices, outputs and activations of an expert in one window. Ignores rows of padding
  // tokens.
  void add(const TextChunk& window, const ExpertRows& rows);

  // Omits outputs and activations from the profile. Must be called if these are unknown for any
  // expert.
  void drop_outputs();

  LayerMeasurement finish() &&;

 private:
  void count_part(const TextPart& part, std::span<const ExpertChoice> choices,
                  LayerMeasurement& measured) const;
  void count_pairs_of(std::span<const ExpertChoice> chosen, LayerProfile& profile) const;
  void finish_means(LayerProfile& profile) const;

  const Text& text_;
  CountedParts parts_;
  int64_t layer_ = 0, experts_ = 0;
  std::vector<ExpertChoice> choices_;
  std::vector<double> norms_, added_, largest_;  // per expert: sums, sums, maxima
  std::optional<ImatrixSums> sums_;
};

double euclidean_norm(std::span<const float> row);

}  // namespace moec
