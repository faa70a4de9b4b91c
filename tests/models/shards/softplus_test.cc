// softplus() against float64, over the whole range of its input.
#include <cmath>

#include "ir/graph/scalar.h"
#include "models/shards/decaying_mixer.h"
#include "tests/backends/reference/testing.h"

namespace moec {
namespace {

constexpr int64_t kSteps = 4001;

// Largest relative error of softplus for x in [least, most].
double softplus_error(DType dtype, double least, double most) {
  Tensor x = plain({1, 1, 1, kSteps}, std::vector<float>(kSteps), dtype);
  for (int64_t i = 0; i < kSteps; ++i) {
    const double value = least + (most - least) * static_cast<double>(i) / (kSteps - 1);
    x.data[static_cast<size_t>(i)] = round_to(dtype, static_cast<float>(value));
  }
  Builder b("softplus", Form::model);
  b.output("y", softplus(b, b.input("x", x.type)));
  const auto results = evaluate(b.finish(), {x});
  EXPECT_TRUE(results.has_value());
  double worst = 0;
  for (size_t i = 0; results && i < x.data.size(); ++i) {
    const double in = x.data[i];
    const double exact = std::max(in, 0.0) + std::log1p(std::exp(-std::abs(in)));
    worst = std::max(worst, std::abs((*results)[0].data[i] - exact) / exact);
  }
  return worst;
}

struct Range {
  double least, most, f16, f32;  // bounds of relative errors; 0: not tested
};

// Published time steps of Mamba-2 lie in [1e-3, 0.1], which is x in [−6.9, −2.25].
TEST(Softplus, KeepsRelativeAccuracyOverItsRange) {
  for (const Range& range :
       {Range{-80, -14, 0, 4e-7}, Range{-14, -12, 4e-2, 4e-7}, Range{-12, -9, 5e-3, 4e-7},
        Range{-9, -6.9, 1e-3, 4e-7}, Range{-6.9, -2.25, 2e-3, 4e-7}, Range{-2.25, 2, 2e-3, 4e-7},
        Range{2, 20, 2e-3, 4e-7}, Range{20, 60000, 1e-3, 1e-7}}) {
    SCOPED_TRACE(range.least);
    if (range.f16 > 0) {
      EXPECT_LE(softplus_error(DType::f16, range.least, range.most), range.f16);
    }
    EXPECT_LE(softplus_error(DType::f32, range.least, range.most), range.f32);
  }
}

}  // namespace
}  // namespace moec
