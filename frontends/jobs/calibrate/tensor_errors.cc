#include "frontends/jobs/calibrate/tensor_errors.h"

#include <algorithm>
#include <numeric>

#include "backends/weights/encode/calibrated_encoder.h"
#include "backends/weights/encode/hessian_sum.h"
#include "backends/weights/encode/part_values.h"
#include "ir/graph/shard.h"

namespace moec {
namespace {

constexpr int64_t kTableRows = 16;
constexpr double kLeastShare = 1.0 / 8;

struct CodedMatrix {
  std::vector<float> values;
  double error = 0;  // per token
};

// Quantizes with palettes of 2^bits entries. Each palette covers gcd(kTableRows, rows) rows, so
// that palettes divide the matrix evenly.
Result<CodedMatrix> coded_matrix(int64_t bits, const Type& type, const std::vector<float>& values,
                                 std::span<const ErrorMetric> metrics) {
  const PaletteEncoding encoding{bits, {std::gcd(kTableRows, type.dims.at(0)), type.dims.at(1)}};
  MOEC_ASSIGN(auto encoder, CalibratedEncoder::create(encoding, type, {metrics, 1}));
  CodedMatrix coded;
  const EncodedSink sink{[](std::span<const std::byte>) -> Status { return {}; },
                         [&](std::span<const std::byte> bytes) -> Status {
                           const std::vector<float> more = floats_of(type.dtype, bytes);
                           coded.values.insert(coded.values.end(), more.begin(), more.end());
                           return {};
                         }};
  MOEC_TRY(encoder.add(std::as_bytes(std::span(values)), sink));
  coded.error = encoder.error();
  return coded;
}

}  // namespace

Result<std::vector<float>> TensorErrorSums::add(const Shard& body, const ExpertMatrix& expert) {
  const CalibratedMatrix& matrix = expert.matrix;
  const Type type{DType::f32, body.type(expert.weight).dims};
  MOEC_ASSIGN(const Metrics metrics, metrics_of(matrix));
  MOEC_ASSIGN(const std::vector<float> values,
              weights_.read_f32(body.producer_as<Weight>(expert.weight)->view,
                                static_cast<uint64_t>(type.bytes())));
  // The encoder's error is per token, so it is weighted by the tokens of the expert.
  const auto tokens = static_cast<double>(stats_.tokens({layer_, matrix.expert, matrix.role}));
  // Sums the matrices of one stored tensor. `tensor_expert` is -1 for a tensor with all experts.
  TensorErrors& tensor = tensors_[{matrix.role, expert.tensor_expert}];
  tensor.role = matrix.role;
  tensor.expert = expert.tensor_expert;
  tensor.elements += type.elements();
  std::vector<float> noisy;
  for (size_t b = 0; b < kMeasuredBits.size(); ++b) {
    MOEC_ASSIGN(CodedMatrix coded, coded_matrix(kMeasuredBits[b], type, values, *metrics));
    tensor.errors[b] += tokens * coded.error;
    // Keeps only the values of one bit width, because the noisy runs use that one.
    if (kMeasuredBits[b] == kNoiseBits) noisy = std::move(coded.values);
  }
  return noisy;
}

// Caches the last metrics, because gate and up of an expert share their inputs.
Result<TensorErrorSums::Metrics> TensorErrorSums::metrics_of(const CalibratedMatrix& matrix) {
  const CalibratedInput* inputs = stats_.inputs_of({layer_, matrix.expert, matrix.role});
  if (metrics_ && inputs == inputs_) return metrics_;
  // Frees the old metrics before the new ones are built, so that only one set exists.
  metrics_.reset();
  const int64_t all = inputs ? inputs->inputs : 0;
  constexpr MetricParts kParts = MetricParts::factor_and_hessian;
  const int64_t together = summed_together(all, metric_bytes_ / 2);  // H and its factor
  std::vector<InputRange> ranges;
  for (int64_t begin = 0; begin < all; begin += together)
    ranges.push_back({begin, std::min(together, all - begin)});
  MOEC_ASSIGN(std::vector<Hessian> hessians,
              stats_.find({layer_, matrix.expert, matrix.role}, ranges));
  metrics_ =
      std::make_shared<const std::vector<ErrorMetric>>(make_metrics(std::move(hessians), kParts));
  inputs_ = inputs;
  return metrics_;
}

// Two passes, because the mean of a role is known only after all its tensors.
std::vector<TensorErrors> TensorErrorSums::finish() const {
  std::map<std::string, std::pair<TensorErrors, int64_t>> sums;  // role → sum, number of tensors
  for (const auto& [key, tensor] : tensors_) {
    auto& [sum, count] = sums[tensor.role];
    for (size_t b = 0; b < sum.errors.size(); ++b) sum.errors[b] += tensor.errors[b];
    ++count;
  }
  std::vector<TensorErrors> all;
  for (const auto& [key, tensor] : tensors_) {
    const auto& [sum, count] = sums[tensor.role];
    const double share = kLeastShare / static_cast<double>(count);
    all.push_back(tensor);
    for (size_t b = 0; b < sum.errors.size(); ++b) all.back().errors[b] += share * sum.errors[b];
  }
  return all;
}

}  // namespace moec
