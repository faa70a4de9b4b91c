#include "frontends/jobs/upcycle/other_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/upcycle/dense_models.h"
#include "models/shards/needed_tensors.h"

namespace moec {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements

struct Difference {
  double apart = 0, base = 0;  // sums of squares
  double relative() const { return base > 0 ? std::sqrt(apart / base) : std::sqrt(apart); }
};

class OtherWeights {
 public:
  OtherWeights(const UpcycleOptions& options, const UpcyclePlan& plan, const WeightReader& weights)
      : options_(options), plan_(plan), weights_(weights) {}

  // Compares a model whose tensors have the prefix.
  Result<Difference> with(const std::string& prefix) {
    Difference difference;
    for (const NeededTensor& tensor : needed_tensors(plan_.source)) {
      if (is_ffn_role(tensor.role)) continue;
      const TensorRange* base = plan_.weights.find(tensor.name);
      const TensorRange* other = plan_.weights.find(prefix + tensor.name);
      if (base == nullptr || other == nullptr || base->type.dims != other->type.dims) {
        difference.apart = HUGE_VAL;
        continue;
      }
      MOEC_TRY(add(flat(tensor.name, *base), flat(prefix + tensor.name, *other), difference));
    }
    return difference;
  }

 private:
  static WeightView flat(const std::string& name, const TensorRange& range) {
    return then(tensor_view(name, range.type), ReshapeStep{{range.type.elements()}});
  }

  Result<std::vector<float>> read(const WeightView& view, int64_t begin, int64_t size) const {
    return weights_.read_f32(then(view, SliceStep{0, begin, size}),
                             static_cast<uint64_t>(kPiece) * sizeof(float));
  }

  Status add(const WeightView& base, const WeightView& other, Difference& difference) const {
    const int64_t elements = base.source_type.elements();
    for (int64_t begin = 0; begin < elements; begin += kPiece) {
      if (options_.stop && options_.stop())
        return fail(kUpcycleInterrupted, "the upcycling was stopped", {}, {});
      const int64_t size = std::min(kPiece, elements - begin);
      MOEC_ASSIGN(const std::vector<float> a, read(base, begin, size));
      MOEC_ASSIGN(const std::vector<float> b, read(other, begin, size));
      for (size_t i = 0; i < a.size(); ++i) {
        const double value = static_cast<double>(a[i]), apart = value - static_cast<double>(b[i]);
        difference.apart += apart * apart;
        difference.base += value * value;
      }
    }
    return {};
  }

  const UpcycleOptions& options_;
  const UpcyclePlan& plan_;
  const WeightReader& weights_;
};

}  // namespace

Status note_other_weights(const UpcycleOptions& options, UpcyclePlan& plan) {
  if (options.sources.experts.empty()) return {};
  MOEC_ASSIGN(const WeightReader weights, WeightReader::open(plan.weights));
  OtherWeights other(options, plan, weights);
  for (size_t i = 0; i < options.sources.experts.size(); ++i) {
    MOEC_ASSIGN(const Difference difference, other.with(fmt::format("{}{}/", kOtherModel, i)));
    if (difference.apart == 0) continue;
    plan.notes.push_back(
        {Severity::warning,
         "upcycle.other_weights",
         std::isfinite(difference.apart)
             ? fmt::format(
                   "attention, norms and embeddings differ from the dense model's by {:.3g} "
                   "of their norm, and are not taken",
                   difference.relative())
             : "the model lacks tensors beside its experts that the dense model has",
         "train the result further, or give experts that were trained from one dense model",
         {.file = options.sources.experts[i]}});
  }
  return {};
}

}  // namespace moec
