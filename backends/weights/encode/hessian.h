// Second moments of the inputs of a linear map over the tokens of a calibration. They weight the
// errors of the map's codes: an error E [outputs, inputs] of the weights causes an output error of
// tr(E·H·Eᵀ).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct Hessian {
  int64_t inputs = 0;
  int64_t tokens = 0;       // tokens that reached the map; 0 for an expert that was never chosen
  std::vector<float> sums;  // Σ x·xᵀ over the tokens, [inputs, inputs], symmetric
  // Degree to which the text is narrower than the training text: 0 for a similar text, about 1 for
  // a text of a single kind (backends/weights/calibration/load_variation.h).
  double narrowness = 0;
};

// Returns a Hessian of zero tokens.
Hessian empty_hessian(int64_t inputs);

// Errors: calibrate.hessian_size (not [inputs, inputs]); calibrate.nonfinite (a NaN or infinite
// element, a negative count, or a negative diagonal element).
Status check_hessian(const Hessian& hessian, int64_t inputs);

// Returns the weight, in tokens, of the moments that an expert borrows from all experts of its
// layer: 4 per input, at most `layer_tokens`.
int64_t borrowed_tokens(int64_t inputs, int64_t layer_tokens);

// Moments per token, with S = sums / n and the mean m of its diagonal:
//   a·S + (1 − a)·(b·diag S + (1 − b)·m·I), a = 1 / (1 + 2·d), b = 1 / (1 + 8·d),
//   d = inputs / n + 4·narrowness²; m·I if the narrowness is 1 or more
// With fewer tokens or a narrower text, correlations of inputs count less, and so do differences of
// their sizes. Otherwise inputs that a short or foreign text rarely uses would get codes that suit
// no other text. However long a narrow text is, it counts as at most inputs / (4·narrowness²)
// tokens. The factors are measured (backends/weights/encode/README.md). Without tokens, all moments
// are zero.
std::vector<float> shrunk(Hessian hessian);

// Returns the limit of `a` for a growing number of tokens: the maximum weight of correlations
// between inputs.
double most_believed(double narrowness);

}  // namespace moec
