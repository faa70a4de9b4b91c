// Plans a model from its config alone: how an export would cut it into shards and what those would
// cost.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

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
  std::string calibration;  // the folder by which --weights auto:BITS chooses bits; "": none
  PassOptions passes;
  RunOptions run;
  PlanRequest request;
  DeviceOptions devices;
  std::optional<int64_t> resident_bytes;  // memory to fill with experts
  // Check the plan as an export for the ane-book's runtimes is checked
  // (frontends/compile/ane_book_form.h).
  std::optional<AneBookForm> ane_book;
};

struct PlannedSource {
  std::string source, target;
  MadePlan made;
  MeasuredPlan measured;
  std::optional<ResidentSet> resident;
  Diagnostics notes;     // of the checkpoint, and what was chosen in place of a default
  Diagnostics findings;  // shards that exceed their budgets (check_budgets())
};

// Compiles every kind of shard, for its size; reads and writes no weights. Errors: those of
// open_for_plan(), choose_forms(), make_plan(), measure_plan() and check_ane_book();
// calibrate.other_checkpoint where bits are chosen for a checkpoint by the calibration of another.
Result<PlannedSource> plan_source(PlanSourceOptions options);

struct PublishedSize {
  std::string name, checkpoint;  // "qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"
  int64_t parameters = 0;
};

// The models that plan_source() knows by name. Parameters are counted in each config, as
// plan_source() counts them: published figures are rounded, or missing.
Result<std::vector<PublishedSize>> published_sizes();

// Shards, cuts, the cost of a token, memory and devices. Not "ok" where a shard exceeds its budget.
nlohmann::ordered_json plan_json(const PlannedSource& planned);

// The models that can be planned by name.
nlohmann::ordered_json published_json(const std::vector<PublishedSize>& models);

}  // namespace moec
