// Compares functions that mixers compose from ops with float64, over their whole input range.
// Decays multiply from token to token, so relative errors matter even for small results.
#include <cmath>

#include "ir/graph/scalar.h"
#include "models/shards/decaying_mixer.h"
#include "tests/backends/reference/testing.h"

namespace moec {
namespace {

constexpr int64_t kSteps = 4001;

double exact_softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

ValueId sigmoid(Builder& b, ValueId x) { return b.unary(UnaryFn::sigmoid, x); }

// Decay factor of a state, for exp(A) = 1 and 16, the bounds of Mamba-2's range.
template <int speed>
ValueId decay(Builder& b, ValueId x) {
  return b.unary(UnaryFn::exp, b.mul(softplus(b, x), b.scalar_like(x, -speed)));
}
template <int speed>
double exact_decay(double x) {
  return std::exp(-speed * exact_softplus(x));
}

// exp(−5 · sigmoid(x)): the lower bound of Kimi Delta Attention's log decay is −5.
ValueId bounded_decay(Builder& b, ValueId x) {
  return b.unary(UnaryFn::exp, b.mul(sigmoid(b, x), b.scalar_like(x, -5)));
}

struct Swept {
  const char* name;
  ValueId (*build)(Builder& b, ValueId x);
  double (*exact)(double x);
  double least, most;  // range of x
  double f16, f32;     // bounds of the relative error; 0: not tested
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Swept& row, std::ostream* out) {
  *out << row.name << " from " << row.least << " to " << row.most;
}

// Largest relative error over the row's range.
double worst_error(const Swept& row, DType dtype) {
  Tensor x = plain({1, 1, 1, kSteps}, std::vector<float>(kSteps), dtype);
  for (int64_t i = 0; i < kSteps; ++i) {
    const double value = row.least + (row.most - row.least) * static_cast<double>(i) / (kSteps - 1);
    x.data[static_cast<size_t>(i)] = round_to(dtype, static_cast<float>(value));
  }
  Builder b("swept", Form::model);
  b.output("y", row.build(b, b.input("x", x.type)));
  const auto results = evaluate(b.finish(), {x});
  EXPECT_TRUE(results.has_value());
  double worst = 0;
  for (size_t i = 0; results && i < x.data.size(); ++i) {
    const double exact = row.exact(x.data[i]);
    worst = std::max(worst, std::abs((*results)[0].data[i] - exact) / std::abs(exact));
  }
  return worst;
}

class MixerFunctions : public testing::TestWithParam<Swept> {};

TEST_P(MixerFunctions, KeepRelativeAccuracy) {
  const Swept& row = GetParam();
  if (row.f16 > 0) EXPECT_LE(worst_error(row, DType::f16), row.f16);
  if (row.f32 > 0) EXPECT_LE(worst_error(row, DType::f32), row.f32);
}

// Published time steps of Mamba-2 lie in [1e-3, 0.1], which is x in [−6.9, −2.25].
INSTANTIATE_TEST_SUITE_P(
    Ranges, MixerFunctions,
    testing::Values(Swept{"softplus", softplus, exact_softplus, -80, -14, 0, 4e-7},
                    Swept{"softplus", softplus, exact_softplus, -14, -12, 4e-2, 4e-7},
                    Swept{"softplus", softplus, exact_softplus, -12, -9, 5e-3, 4e-7},
                    Swept{"softplus", softplus, exact_softplus, -9, -6.9, 1e-3, 4e-7},
                    Swept{"softplus", softplus, exact_softplus, -6.9, -2.25, 2e-3, 4e-7},
                    Swept{"softplus", softplus, exact_softplus, -2.25, 2, 2e-3, 4e-7},
                    Swept{"softplus", softplus, exact_softplus, 2, 20, 2e-3, 4e-7},
                    Swept{"softplus", softplus, exact_softplus, 20, 60000, 1e-3, 1e-7},
                    Swept{"sigmoid", sigmoid, exact_sigmoid, -80, -9, 0, 2e-7},
                    Swept{"sigmoid", sigmoid, exact_sigmoid, -9, 20, 1e-3, 2e-7},
                    Swept{"sigmoid", sigmoid, exact_sigmoid, 20, 60000, 1e-3, 2e-7},
                    Swept{"decay", decay<1>, exact_decay<1>, -30, -9, 1e-3, 2e-7},
                    Swept{"decay", decay<1>, exact_decay<1>, -9, 2, 3e-3, 4e-7},
                    Swept{"decay", decay<1>, exact_decay<1>, 2, 9, 6e-3, 2e-6},
                    Swept{"fast decay", decay<16>, exact_decay<16>, -30, -9, 2e-3, 3e-7},
                    Swept{"fast decay", decay<16>, exact_decay<16>, -9, -2.25, 4e-3, 1e-6},
                    Swept{"fast decay", decay<16>, exact_decay<16>, -2.25, 0, 0, 8e-6},
                    Swept{"bounded decay", bounded_decay,
                          [](double x) { return std::exp(-5 * exact_sigmoid(x)); }, -80, 60, 6e-3,
                          1e-6}));

}  // namespace
}  // namespace moec
