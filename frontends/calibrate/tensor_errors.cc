#include "frontends/calibrate/tensor_errors.h"

#include <numeric>

#include "backends/weights/encode/calibrated_encoder.h"
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

// With tables of so many bits for groups of 16 rows, or of fewer that divide the rows.
Result<CodedMatrix> coded_matrix(int64_t bits, const Type& type, const std::vector<float>& values,
                                 const ErrorMetric& metric) {
  const PaletteEncoding encoding{bits, {std::gcd(kTableRows, type.dims.at(0)), type.dims.at(1)}};
  MOEC_ASSIGN(auto encoder, CalibratedEncoder::create(encoding, type, {std::span(&metric, 1), 1}));
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
  MOEC_ASSIGN(const auto metric, metric_of(matrix));
  MOEC_ASSIGN(const std::vector<float> values,
              weights_.read_f32(body.producer_as<Weight>(expert.weight)->view,
                                static_cast<uint64_t>(type.bytes())));
  const auto tokens = static_cast<double>(stats_.tokens(layer_, matrix.role, matrix.expert));
  TensorErrors& tensor = tensors_[{matrix.role, expert.tensor_expert}];
  tensor.role = matrix.role;
  tensor.expert = expert.tensor_expert;
  tensor.elements += type.elements();
  std::vector<float> noisy;
  for (size_t b = 0; b < kMeasuredBits.size(); ++b) {
    MOEC_ASSIGN(CodedMatrix coded, coded_matrix(kMeasuredBits[b], type, values, *metric));
    tensor.errors[b] += tokens * coded.error;
    if (kMeasuredBits[b] == kNoiseBits) noisy = std::move(coded.values);
  }
  return noisy;
}

// Gate and up of an expert share their inputs.
Result<std::shared_ptr<const ErrorMetric>> TensorErrorSums::metric_of(
    const CalibratedMatrix& matrix) {
  const CalibratedInput* inputs = stats_.inputs_of(layer_, matrix.role, matrix.expert);
  if (metric_ && inputs == inputs_) return metric_;
  metric_.reset();
  MOEC_ASSIGN(Hessian hessian, stats_.find(layer_, matrix.role, matrix.expert));
  metric_ = std::make_shared<const ErrorMetric>(make_metric(std::move(hessian), 0));
  inputs_ = inputs;
  return metric_;
}

std::vector<TensorErrors> TensorErrorSums::finish() const {
  std::map<std::string, std::pair<TensorErrors, int64_t>> sums;  // and of how many tensors
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
