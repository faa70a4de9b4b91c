// Counts of the experts that routers chose, alone and in pairs, in which later tokens count more.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backends/reference/rows.h"

namespace moec {

// The counts of a layer, relative to the latest token, which counts 1. The lists have one number
// per expert; `together` has one per pair of experts (pair_at()).
struct LayerChoices {
  double tokens = 0;
  std::vector<double> selections;  // tokens that chose the expert
  std::vector<double> mass;        // sums of routing weights; those of a token add up to 1
  std::vector<double> together;    // tokens that chose both experts
};

class ChoiceLog {
 public:
  // A token counts half after `half_life` further tokens.
  ChoiceLog(int64_t experts, double half_life) : experts_(experts), half_life_(half_life) {}

  // Lets all earlier tokens count less.
  void advance(int64_t tokens);
  // Adds weights [tokens, experts] in the layout of RoutingObserver. Skips tokens without an
  // expert.
  void add(int64_t layer, const Rows& weights);
  // Returns zeros for a layer without tokens.
  LayerChoices layer(int64_t number) const;

 private:
  LayerChoices empty() const;

  int64_t experts_;
  double half_life_;
  // Sums in units of 1 / weight_. New tokens get a growing weight instead of a decay of all sums:
  // 60 layers of 384 experts have 4.4 million pairs, whose decay takes longer than a small model's
  // token.
  std::map<int64_t, LayerChoices> layers_;
  double weight_ = 1;
};

}  // namespace moec
