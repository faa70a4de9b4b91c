#include "backends/weights/encode/hessian.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moec {

Hessian empty_hessian(int64_t inputs) {
  return {inputs, 0, std::vector<float>(static_cast<size_t>(inputs * inputs), 0)};
}

Status check_hessian(const Hessian& hessian, int64_t inputs) {
  const std::string next = "calibrate this checkpoint again with moec calibrate";
  const auto size = static_cast<size_t>(inputs);
  if (inputs <= 0 || hessian.inputs != inputs || hessian.sums.size() != size * size)
    return fail("calibrate.hessian_size",
                fmt::format("the Hessian is of {} inputs and has {} elements, the weight has {} "
                            "inputs",
                            hessian.inputs, hessian.sums.size(), inputs),
                next);
  const bool finite = std::all_of(hessian.sums.begin(), hessian.sums.end(),
                                  [](float value) { return std::isfinite(value); });
  bool possible = hessian.tokens >= 0;
  for (size_t i = 0; i < size; ++i) possible &= hessian.sums[i * (size + 1)] >= 0;
  if (finite && possible) return {};
  return fail("calibrate.nonfinite",
              finite ? "the Hessian has a negative count or a negative diagonal"
                     : "the Hessian holds NaN or infinite values",
              next);
}

Hessian pooled(Hessian expert, const Hessian& layer) {
  if (layer.tokens == 0) return expert;
  const int64_t taken = std::min(4 * expert.inputs, layer.tokens);
  const double share = static_cast<double>(taken) / static_cast<double>(layer.tokens);
  for (size_t i = 0; i < expert.sums.size(); ++i)
    expert.sums[i] += static_cast<float>(share * static_cast<double>(layer.sums[i]));
  expert.tokens += taken;
  return expert;
}

std::vector<float> shrunk(const Hessian& hessian) {
  const auto size = static_cast<size_t>(hessian.inputs);
  std::vector<float> moments(hessian.sums.size(), 0);
  if (hessian.tokens == 0) return moments;
  const auto tokens = static_cast<double>(hessian.tokens);
  const auto shared = static_cast<float>(1 / (tokens + 2 * static_cast<double>(size)));
  for (size_t i = 0; i < moments.size(); ++i) moments[i] = hessian.sums[i] * shared;
  for (size_t i = 0; i < size; ++i)
    moments[i * (size + 1)] = static_cast<float>(hessian.sums[i * (size + 1)] / tokens);
  return moments;
}

}  // namespace moec
