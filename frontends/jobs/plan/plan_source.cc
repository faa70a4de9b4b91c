#include "frontends/jobs/plan/plan_source.h"

#include <utility>

#include "backends/formats/format.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/compile/ane_book_form.h"
#include "frontends/compile/auto_bits.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/compile/describe_export.h"
#include "frontends/sources/open_source.h"
#include "ir/base/name_file.h"
#include "models/plan/check_budgets.h"
#include "models/published/published.h"
#include "models/shards/needed_tensors.h"

namespace moec {

// As an export is refused, or warned of.
static Status check_book(const PlanSourceOptions& options, const Plan& plan, Diagnostics& notes) {
  if (!options.ane_book) return {};
  MOEC_TRY(check_ane_book(plan, describe_plan(plan, options.passes, {}).build,
                          options.ane_book->one_package_a_shard));
  note_fixed_in_book(plan, notes);
  return {};
}

// A config alone, whose weights lie in no file, may be of any checkpoint.
static Status check_calibration(const PlanSourceOptions& options, const WeightTable& weights) {
  const bool has_choice =
      options.request.build.weights.chooses_bits() && !options.calibration.empty();
  if (!has_choice || weights.files.front().path.empty()) return {};
  MOEC_ASSIGN(const CalibrationStats stats, CalibrationStats::open(options.calibration));
  MOEC_ASSIGN(const std::string config, source_config_text(options.source));
  MOEC_ASSIGN(const std::string identity, checkpoint_identity(config, weights));
  return stats.check_checkpoint(identity);
}

Result<PlannedSource> plan_source(PlanSourceOptions options) {
  const std::string& source = options.source;
  PlanRequest& request = options.request;
  MOEC_TRY(require_graphs(format_of(options.passes.target.format), source));
  MOEC_ASSIGN(Checkpoint checkpoint, open_for_plan(source, options.family_file, equal_tensors));
  MOEC_TRY(check_calibration(options, checkpoint.weights));
  MOEC_TRY(choose_forms(options.passes.target, options.calibration, request.build.weights));
  PlannedSource planned;
  planned.source = source;
  planned.target = options.passes.target.name;
  planned.notes = std::move(checkpoint.warnings);
  MOEC_ASSIGN(planned.made,
              naming_file(make_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                    options.passes.target, request),
                          source));
  const Diagnostics& chosen = planned.made.notes;
  planned.notes.insert(planned.notes.end(), chosen.begin(), chosen.end());
  const Plan& plan = planned.made.plan;
  MOEC_TRY(check_book(options, plan, planned.notes));
  MOEC_ASSIGN(planned.measured,
              measure_plan(plan, request.cuts, std::move(options.devices), [&](size_t index) {
                return compiled_size(plan, index, options.passes, options.run);
              }));
  planned.findings = check_budgets(planned.measured.report, request.cuts);
  if (options.resident_bytes)
    planned.resident = resident_set(plan, planned.measured.report, *options.resident_bytes);
  return planned;
}

Result<std::vector<PublishedSize>> published_sizes() {
  std::vector<PublishedSize> sizes;
  for (const PublishedModel& model : published_models()) {
    MOEC_ASSIGN(const Checkpoint opened, open_for_plan(model.name, std::nullopt, equal_tensors));
    sizes.push_back({model.name, model.checkpoint, parameter_count(opened.config)});
  }
  return sizes;
}

}  // namespace moec
