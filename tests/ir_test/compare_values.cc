#include "tests/ir_test/compare_values.h"

#include <fmt/format.h>

#include <cmath>

#include "backends/reference/reference.h"

namespace moec::ir_test {
namespace {

double tolerance(DType dtype) {
  if (dtype == DType::f32) return 1e-5;
  if (dtype == DType::f16) return 5e-3;
  if (dtype == DType::bf16) return 4e-2;
  return 0;
}

// Relative L2 error; equal infinities differ by 0. The result is NaN if only one side is NaN.
double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      if (std::isfinite(a[i])) size += double{a[i]} * a[i];
      continue;
    }
    const double d = double{a[i]} - b[i];
    difference += d * d;
    size += double{a[i]} * a[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

}  // namespace

std::vector<std::string> compare_values(const Shard& before, const Shard& after) {
  std::vector<std::string> differences;
  for (uint64_t seed : {1, 2, 3}) {
    const std::vector<Tensor> inputs = seeded_inputs(before, seed);
    auto expected = evaluate(before, inputs), found = evaluate(after, inputs);
    if (!expected || !found) return {render(expected ? found.error() : expected.error())};
    if (expected->size() != found->size()) return {"the shards differ in their outputs"};
    for (size_t i = 0; i < expected->size(); ++i) {
      const Tensor &a = (*expected)[i], &b = (*found)[i];
      const double distance = a.type == b.type ? relative_l2(a.data, b.data) : INFINITY;
      if (!(distance <= tolerance(a.type.dtype)))
        differences.push_back(fmt::format("output {} differs with seed {}: relative L2 {:.3g}",
                                          before.outputs[i].name, seed, distance));
    }
  }
  return differences;
}

}  // namespace moec::ir_test
