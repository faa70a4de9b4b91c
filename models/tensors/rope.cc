#include "models/tensors/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moec {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Frequencies with many rotations over the original positions encode nearby positions and are kept.
// Slow frequencies are divided by the factor; frequencies in between are interpolated (sources in
// rope.h).
double llama3_frequency(const RopeConfig& rope, double frequency) {
  double turns = rope.original_max_positions * frequency / kTwoPi;
  if (turns > rope.high_freq_factor) return frequency;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  double span = rope.high_freq_factor - rope.low_freq_factor;
  // `keep` is 1 at high_freq_factor, where the frequency is kept, and 0 at low_freq_factor.
  double keep = span > 0 ? (turns - rope.low_freq_factor) / span : 1;
  return (1 - keep) * frequency / rope.factor + keep * frequency;
}

// The fractional dim whose angle makes `turns` full rotations over the original positions.
double yarn_dim(const RopeConfig& rope, double turns) {
  return static_cast<double>(rope.dims) * std::log(rope.original_max_positions / (turns * kTwoPi)) /
         (2 * std::log(rope.theta));
}

// The interpolation weight per frequency: 0 keeps the frequency, 1 divides it by the factor. The
// ramp is over dims, not over frequencies, and its ends are rounded outwards, as in the reference.
class YarnRamp {
 public:
  explicit YarnRamp(const RopeConfig& rope)
      : low_(yarn_dim(rope, rope.yarn.fast)), high_(yarn_dim(rope, rope.yarn.slow)) {
    if (rope.yarn.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(rope.dims - 1));
    if (low_ == high_) high_ += 0.001;  // keeps the slope finite
  }
  double operator()(int64_t i) const {
    return std::clamp((static_cast<double>(i) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_, high_;
};

// YaRN's temperature: a factor above 1 compensates for the flatter softmax of longer contexts.
double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

std::vector<double> plain_frequencies(const RopeConfig& rope) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < rope.dims / 2; ++i)
    frequencies.push_back(
        std::pow(rope.theta, -2 * static_cast<double>(i) / static_cast<double>(rope.dims)));
  return frequencies;
}

const RopeFactors& factors_for(const RopeConfig& rope, int64_t context) {
  return has_long_factors(rope, context) ? rope.long_factors : rope.short_factors;
}

}  // namespace

bool has_long_factors(const RopeConfig& rope, int64_t context) {
  return rope.scaling == RopeScaling::longrope &&
         static_cast<double>(context) > rope.original_max_positions;
}

std::string describe_factors(const RopeConfig& rope, int64_t context) {
  if (rope.scaling != RopeScaling::longrope) return {};
  const bool far = has_long_factors(rope, context);
  return fmt::format("{} factors (a context {} {} positions)", far ? "long" : "short",
                     far ? "above" : "of at most", rope.original_max_positions);
}

std::vector<double> inverse_frequencies(const RopeConfig& rope, int64_t context) {
  std::vector<double> frequencies = plain_frequencies(rope);
  // In proportional scaling, frequencies from this index on are 0, so their dims do not rotate.
  const auto turning = static_cast<int64_t>(rope.share * static_cast<double>(rope.dims) / 2);
  switch (rope.scaling) {
    case RopeScaling::none:
      break;
    case RopeScaling::linear:
      for (double& f : frequencies) f /= rope.factor;
      break;
    case RopeScaling::llama3:
      for (double& f : frequencies) f = llama3_frequency(rope, f);
      break;
    case RopeScaling::yarn: {
      YarnRamp ramp(rope);
      for (size_t i = 0; i < frequencies.size(); ++i) {
        double t = ramp(static_cast<int64_t>(i));
        frequencies[i] *= t / rope.factor + (1 - t);
      }
      break;
    }
    case RopeScaling::longrope:
      for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] /= factors_for(rope, context).of[i];
      break;
    case RopeScaling::proportional:
      for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = static_cast<int64_t>(i) < turning ? frequencies[i] / rope.factor : 0;
      break;
  }
  return frequencies;
}

double rope_amplitude(const RopeConfig& rope, int64_t context) {
  switch (rope.scaling) {
    case RopeScaling::longrope:
      return factors_for(rope, context).amplitude;
    case RopeScaling::none:
    case RopeScaling::linear:
    case RopeScaling::llama3:
    case RopeScaling::proportional:
      return 1;
    case RopeScaling::yarn:
      break;
  }
  if (rope.attention_factor) return *rope.attention_factor;
  // A value of 0 counts as absent, as in transformers, which tests the values for truth.
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0)
    return yarn_scale(rope.factor, *rope.mscale) / yarn_scale(rope.factor, *rope.mscale_all_dim);
  return yarn_scale(rope.factor, 1);
}

double rope_score_scale(const RopeConfig& rope) {
  if (rope.scaling != RopeScaling::yarn || rope.mscale_all_dim.value_or(0) == 0) return 1;
  // DeepSeek multiplies the scale of the scores by mscale squared.
  const double mscale = yarn_scale(rope.factor, *rope.mscale_all_dim);
  return mscale * mscale;
}

double query_scale(const QueryTemperature& temperature, int64_t position) {
  const int64_t counted = temperature.everywhere ? position : position + 1;
  const double steps = std::floor(static_cast<double>(counted) / temperature.step);
  return 1 + temperature.scale * std::log1p(steps);
}

RopeTable rope_table(const RopeConfig& rope, int64_t positions) {
  std::vector<double> frequencies = inverse_frequencies(rope, positions);
  double amplitude = rope_amplitude(rope, positions);
  RopeTable table{positions, std::ssize(frequencies), {}, {}};
  table.cos.reserve(static_cast<size_t>(positions) * frequencies.size());
  table.sin.reserve(table.cos.capacity());
  for (int64_t position = 0; position < positions; ++position) {
    for (double frequency : frequencies) {
      // Computes in double: rounding a large angle to f32 would change its cosine.
      double angle = static_cast<double>(position) * frequency;
      table.cos.push_back(static_cast<float>(std::cos(angle) * amplitude));
      table.sin.push_back(static_cast<float>(std::sin(angle) * amplitude));
    }
  }
  return table;
}

std::vector<RopeTable> rope_tables(const ModelConfig& model, int64_t positions) {
  std::vector<RopeTable> tables;
  for (const RopeConfig& rope : model.rotations()) tables.push_back(rope_table(rope, positions));
  return tables;
}

}  // namespace moec
