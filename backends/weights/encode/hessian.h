// What a linear map is given: second moments of its inputs over the tokens of a calibration. They
// weigh the errors of its coded weights: an error E [outputs, inputs] of the weights is one of
// tr(E·H·Eᵀ) of the outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct Hessian {
  int64_t inputs = 0;
  int64_t tokens = 0;       // that reached the map; 0 for an expert that was never chosen
  std::vector<float> sums;  // Σ x·xᵀ over the tokens, [inputs, inputs], symmetric
  // How far the text is from all that the model was trained on: 0 for a text that is of it, about 1
  // for one of a single kind (backends/weights/calibration/load_variation.h).
  double narrowness = 0;
};

// A Hessian of no tokens.
Hessian empty_hessian(int64_t inputs);

// Errors: calibrate.hessian_size where it is not [inputs, inputs]; calibrate.nonfinite for a NaN or
// an infinite element, a negative count or a negative element of the diagonal.
Status check_hessian(const Hessian& hessian, int64_t inputs);

// How many further tokens the moments of all experts of a layer count as beside those of one
// expert, which has as many inputs: 4 for each input, or as many as there are.
int64_t borrowed_tokens(int64_t inputs, int64_t layer_tokens);

// Moments per token, with S = sums / n and the mean m of its diagonal:
//   a·S + (1 − a)·(b·diag S + (1 − b)·m·I), a = 1 / (1 + 2·d), b = 1 / (1 + 8·d),
//   d = inputs / n + 4·narrowness²; m·I where the narrowness is 1 or more
// The fewer tokens and the narrower their text, the less is believed of what inputs have in common,
// and of their sizes: an input that a short or foreign text leaves small would else have codes that
// suit nothing. However many tokens a narrow text has, they count as inputs / (4·narrowness²) at
// most. The factors are measured (backends/weights/encode/README.md). With no tokens, all zeros.
std::vector<float> shrunk(Hessian hessian);

// a for any number of tokens of a text: the most that is believed of what inputs have in common.
double most_believed(double narrowness);

}  // namespace moec
