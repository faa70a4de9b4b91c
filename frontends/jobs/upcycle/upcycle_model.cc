#include "frontends/jobs/upcycle/upcycle_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "backends/output/carried_files.h"
#include "backends/weights/views/equal_tensors.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/checkpoint/result_folder.h"
#include "frontends/jobs/upcycle/dense_models.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"
#include "ir/base/diagnostics.h"
#include "ir/base/output_apart.h"
#include "ir/base/regular_file.h"
#include "models/shards/needed_tensors.h"

namespace moec {

namespace {

// Compares in pieces, because a whole embedding in f32 may need several GiB.
constexpr int64_t kPiece = int64_t{1} << 20;  // elements

struct Difference {
  double apart = 0, base = 0;  // sums of squares
  // Without a base norm, the absolute difference is the only measure.
  double relative() const { return base > 0 ? std::sqrt(apart / base) : std::sqrt(apart); }
};

class OtherWeights {
 public:
  OtherWeights(const UpcycleOptions& options, const UpcyclePlan& plan, const WeightReader& weights)
      : options_(options), plan_(plan), weights_(weights) {}

  // Compares the tensors of the model with this prefix with the tensors of the dense model.
  Result<Difference> with(const std::string& prefix) {
    Difference difference;
    for (const NeededTensor& tensor : needed_tensors(plan_.source)) {
      // Feed-forward matrices are the intended difference.
      if (is_ffn_role(tensor.role)) continue;
      const auto base = plan_.weights.view(tensor.name);
      const auto other = plan_.weights.view(prefix + tensor.name);
      if (!base || !other || view_type(*base)->dims != view_type(*other)->dims) {
        // Infinity marks missing tensors, which no finite difference can equal.
        difference.apart = HUGE_VAL;
        continue;
      }
      MOEC_TRY(add(flat(*base), flat(*other), difference));
    }
    return difference;
  }

 private:
  static WeightView flat(const WeightView& view) {
    // Flattens the tensor, so that pieces need not end at rows.
    return then(view, ReshapeStep{{view_type(view)->elements()}});
  }

  Result<std::vector<float>> read(const WeightView& view, int64_t begin, int64_t size) const {
    return weights_.read_f32(then(view, SliceStep{0, begin, size}),
                             static_cast<uint64_t>(kPiece) * sizeof(float));
  }

  Status add(const WeightView& base, const WeightView& other, Difference& difference) const {
    const int64_t elements = view_type(base)->elements();
    for (int64_t begin = 0; begin < elements; begin += kPiece) {
      if (options_.hooks.stop && options_.hooks.stop())
        return fail(kUpcycle.interrupted(), "moec upcycle was stopped", {}, {});
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

// Compares the tensors of each model of options.sources.experts, except feed-forward matrices, with
// the dense model's. If they differ, adds the warning upcycle.other_weights with the relative
// difference |a − b| / |b| over all tensors, where b are the dense model's values. Errors: those of
// WeightReader, kUpcycle.interrupted().
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
                   "of their norm and are ignored",
                   difference.relative())
             : "the model lacks tensors of the dense model, other than feed-forward matrices",
         "train the result further, or pass experts that were trained from the same dense model",
         {.file = options.sources.experts[i]}});
  }
  return {};
}

Status check_apart(const UpcycleOptions& options) {
  MOEC_TRY(check_apart_from(options.source, options.output.folder, "--out"));
  for (const std::string& folder : options.sources.experts)
    MOEC_TRY(check_apart_from(folder, options.output.folder, "--out"));
  for (const std::string& folder : options.sources.adapters)
    MOEC_TRY(check_apart_from(folder, options.output.folder, "--out"));
  MOEC_ASSIGN(const CarriedSource carried, carried_source(options.source));
  return check_carried_files(carried);
}

// Checks that the result opens as a checkpoint in which every tensor has its expected shape.
Status check_reads_back(const UpcycleOptions& options, const std::string& folder) {
  const auto made = open_source(folder, result_family(options), equal_tensors);
  return made ? Status() : fail(made.error());
}

void warn_of_nonfinite(uint64_t values, UpcycleReport& report) {
  if (values == 0) return;
  report.plan.notes.push_back(
      {Severity::warning,
       "upcycle.nonfinite_weights",
       fmt::format("{} weights are NaN or infinite, as in the source", values),
       "download the source again",
       {.file = report.out}});
}

// Returns the default maximum relative error of logits. For rounded weights, it is about ten times
// the error measured for a model with 30 layers (SmolLM2 in bf16: 0.05).
double default_max_error(const UpcyclePlan& plan) {
  // 1e-5 covers the different order of summation in f32.
  if (plan.exact.kind != Exactness::rounded) return 1e-5;
  const bool coarse =
      std::any_of(plan.tensors.begin(), plan.tensors.end(),
                  [](const NewTensor& tensor) { return tensor.type.dtype == DType::bf16; });
  return coarse ? 0.4 : 0.05;
}

Status write(const UpcycleOptions& options, const std::vector<SafetensorsPart>& parts,
             UpcycleReport& report) {
  MOEC_TRY(check_apart(options));
  MOEC_ASSIGN(CarriedSource carried, carried_source(options.source));
  const UpcyclePlan& plan = report.plan;
  MOEC_ASSIGN(WrittenCheckpoint written,
              publish_checkpoint(
                  {plan.config_text, plan.tensors, plan.weights, std::move(carried)}, parts,
                  {kUpcycle, options.output, options.hooks},
                  [&](const std::string& folder) { return check_reads_back(options, folder); }));
  report.files = std::move(written.files);
  warn_of_nonfinite(written.nonfinite, report);
  return {};
}

}  // namespace

Result<UpcycleReport> upcycle_model(const UpcycleOptions& options) {
  UpcycleReport report{options.source, options.output.folder};
  report.dry_run = options.dry_run;
  MOEC_ASSIGN(report.plan,
              options.sources.multiply > 0 ? plan_multiplied(options) : plan_upcycle(options));
  report.max_error = options.verify.max_error.value_or(default_max_error(report.plan));
  MOEC_ASSIGN(const std::vector<SafetensorsPart> parts,
              plan_files(report.plan.tensors, options.output.max_shard_bytes));
  for (const SafetensorsPart& part : parts) report.tensor_bytes += part.payload_bytes;
  if (options.dry_run) return report;
  // A dry run skips this comparison, because it reads all weights.
  MOEC_TRY(note_other_weights(options, report.plan));
  MOEC_TRY(write(options, parts, report));
  if (options.verify.run) {
    // Verifies the published folder, as a user would open it.
    MOEC_ASSIGN(report.comparison, verify_upcycle(options, report.plan, options.output.folder));
  }
  return report;
}

}  // namespace moec
