// Plans a model from its config alone: the shards of an export and their costs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/plan/forecast_plan.h"
#include "frontends/sources/family_options.h"
#include "models/cluster/measure_plan.h"
#include "models/plan/make_plan.h"
#include "models/plan/residency.h"
#include "passes/pipeline.h"

namespace moec {

struct AneBookForm {
  bool one_package_a_shard = false;
};

struct PlanSourceOptions {
  std::string source;  // a checkpoint folder, a config.json, or the name of a published model
  FamilyOptions family;
  std::string calibration;  // folder from which --weights auto:BITS chooses bits; "": none
  // Count weights in the checkpoint's types instead of the target's preferred types.
  bool own_types = false;
  PassOptions passes;
  RunOptions run;
  PlanRequest request;
  DeviceOptions devices;
  std::optional<int64_t> resident_bytes;    // memory to fill with experts
  std::optional<ForecastOptions> forecast;  // absent: no forecast
  // Also apply the checks of an export for the ane-book's runtimes
  // (frontends/compile/ane_book_form.h).
  std::optional<AneBookForm> ane_book;
  bool genai_pipeline = false;  // also apply check_pipeline() (frontends/compile/pipeline_form.h)
};

struct PlannedSource {
  std::string source, target;
  MadePlan made;
  MeasuredPlan measured;
  std::optional<ResidentSet> resident;
  std::optional<Forecast> forecast;
  std::optional<uint64_t> calibration_bytes;  // maximum size of a calibration of the source
  Diagnostics notes;     // about the checkpoint and about choices other than defaults
  Diagnostics findings;  // shards that exceed their budgets (check_budgets())
};

// Compiles every kind of shard to determine its size; reads and writes no weights. Errors: those of
// open_for_plan(), choose_forms(), make_plan(), measure_plan(), forecast_plan(),
// check_ane_book() and check_pipeline(); calibrate.other_checkpoint if the calibration for
// auto:BITS is of another checkpoint.
Result<PlannedSource> plan_source(PlanSourceOptions options);

struct PublishedSize {
  std::string name, checkpoint;  // "qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"
  int64_t parameters = 0;
  std::string from;  // PublishedModel::from
};

// The models that plan_source() accepts by name. Parameters are computed from each config, because
// published figures are rounded or missing.
Result<std::vector<PublishedSize>> published_sizes();

// Shards, cuts, cost per token, memory and devices. "ok" is false if a shard exceeds its budget.
nlohmann::ordered_json plan_json(const PlannedSource& planned);

// The models that plan_source() accepts by name, as JSON.
nlohmann::ordered_json published_json(const std::vector<PublishedSize>& models);

}  // namespace moec
