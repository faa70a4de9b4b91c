#include "backends/weights/encode/hessian.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace moec {
namespace {

// The part of d in shrunk() that does not depend on the number of tokens (hessian.h).
double doubt_of(double narrowness) {
  return narrowness < 1 ? 4 * narrowness * narrowness : std::numeric_limits<double>::infinity();
}

// The factor a of shrunk() (hessian.h). An infinite doubt gives 0.
double belief_in_products(double doubt) { return 1 / (1 + 2 * doubt); }

}  // namespace

Hessian empty_hessian(int64_t inputs) {
  return {inputs, 0, std::vector<float>(static_cast<size_t>(inputs * inputs), 0)};
}

Status check_hessian(const Hessian& hessian, int64_t inputs) {
  const std::string next = "calibrate this checkpoint again with moec calibrate";
  const auto size = static_cast<size_t>(inputs);
  if (inputs <= 0 || hessian.inputs != inputs || hessian.sums.size() != size * size)
    return fail(
        "calibrate.hessian_size",
        fmt::format("the Hessian is for {} inputs and has {} elements, but the weight has {} "
                    "inputs",
                    hessian.inputs, hessian.sums.size(), inputs),
        next);
  // Calibrations are read from files. A single NaN or infinite element would make the
  // factorization fail.
  const bool finite = std::all_of(hessian.sums.begin(), hessian.sums.end(),
                                  [](float value) { return std::isfinite(value); });
  bool possible = hessian.tokens >= 0;
  for (size_t i = 0; i < size; ++i) possible &= hessian.sums[i * (size + 1)] >= 0;
  if (finite && possible) return {};
  return fail("calibrate.nonfinite",
              finite ? "the Hessian has a negative count or a negative diagonal"
                     : "the Hessian contains NaN or infinite values",
              next);
}

int64_t borrowed_tokens(int64_t inputs, int64_t layer_tokens) {
  return std::min(4 * inputs, layer_tokens);
}

std::vector<float> shrunk(Hessian hessian) {
  std::vector<float>& moments = hessian.sums;
  // Avoids 0 / 0. With moments of 0, no error has a cost.
  if (hessian.tokens == 0) {
    std::fill(moments.begin(), moments.end(), 0.0f);
    return std::move(moments);
  }
  const auto size = static_cast<size_t>(hessian.inputs);
  const auto tokens = static_cast<double>(hessian.tokens);
  const auto inputs = static_cast<double>(size);
  const double doubt = inputs / tokens + doubt_of(hessian.narrowness);
  const double a = belief_in_products(doubt), b = 1 / (1 + 8 * doubt);
  double mean = 0;
  for (size_t i = 0; i < size; ++i) mean += moments[i * (size + 1)] / tokens / inputs;
  for (size_t i = 0; i < size; ++i)
    for (size_t j = 0; j < size; ++j) {
      float& moment = moments[i * size + j];
      const double of_token = moment / tokens;
      const double own = b * of_token + (1 - b) * mean;
      moment = static_cast<float>(a * of_token + (i == j ? (1 - a) * own : 0));
    }
  return std::move(moments);
}

double most_believed(double narrowness) { return belief_in_products(doubt_of(narrowness)); }

}  // namespace moec
