// Counts what one MoE layer does with a text, in whatever order its experts are told of.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/reference/reference.h"
#include "frontends/measure/analysis_text.h"

namespace moec {

// Sums of squares of what the matrices of experts are applied to, as importance matrices hold them.

// Sums over the tokens of each expert, [experts][columns].
struct ImatrixSums {
  std::vector<std::vector<float>> input;  // of the gate and up matrices
  std::vector<std::vector<float>> inner;  // of the down matrix

  explicit ImatrixSums(int64_t experts)
      : input(static_cast<size_t>(experts)), inner(static_cast<size_t>(experts)) {}
};

// Adds the squares of a row of values to the sums of its columns, which begin empty.
void add_squares(std::vector<float>& sums, std::span<const float> row);

// A token, numbered through all windows, chose an expert.
struct ExpertChoice {
  int64_t token = 0;
  int64_t expert = 0;
  double weight = 0;
};

// What is measured of a layer beside its profile.
struct LayerMeasurement {
  LayerProfile profile;
  std::vector<std::vector<int64_t>> by_document;  // [documents][experts], selections
  std::array<std::vector<int64_t>, 2> halves;     // [experts], selections of each half
  std::vector<int64_t> reuse;  // selections whose expert was the d-th latest used of its layer
  std::optional<ImatrixSums> sums;
  std::vector<ExpertChoice> choices;  // by token, then expert
};

// What a counter is told of; the lists of the others stay empty in the profile.
struct CountedParts {
  bool outputs = true, activations = true, pairs = true;
  bool sums = false;  // of an imatrix
};

class LayerCounter {
 public:
  // The text must outlive it.
  LayerCounter(int64_t layer, int64_t experts, const AnalysisText& text, CountedParts parts);

  // A token, numbered through all windows, chose an expert.
  void choose(int64_t token, int64_t expert, double weight);
  // One of its outputs: the norm of f(x), and of what it adds to the layer's.
  void add_output(int64_t expert, double norm, double added_norm);
  void add_activations(int64_t expert, std::span<const float> inner);
  // All of that for one window; rows of tokens that only fill the window do not count.
  void add(int64_t window, const ExpertRows& rows);

  // The outputs of some expert cannot be told: `outputs` and `activations` are left out.
  void drop_outputs();

  LayerMeasurement finish() &&;

 private:
  void count_part(const TextPart& part, std::span<const ExpertChoice> choices,
                  LayerMeasurement& measured) const;
  void count_pairs_of(std::span<const ExpertChoice> chosen, LayerProfile& profile) const;
  void finish_means(LayerProfile& profile) const;

  const AnalysisText& text_;
  CountedParts parts_;
  int64_t layer_ = 0, experts_ = 0;
  std::vector<ExpertChoice> choices_;
  std::vector<double> norms_, added_, largest_;  // sums, sums and maxima by expert
  std::optional<ImatrixSums> sums_;
};

double euclidean_norm(std::span<const float> row);

}  // namespace moec
