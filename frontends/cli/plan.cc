// moec plan: how a model would be cut into shards and what they would cost, from its config alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/weights/equal_tensors.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/device_flags.h"
#include "frontends/cli/flags/parse_bytes.h"
#include "frontends/cli/flags/pass_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/shard_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/plan_output.h"
#include "frontends/cli/print/print_devices.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/auto_bits.h"
#include "frontends/export/compile_shard.h"
#include "frontends/hf/open_source.h"
#include "ir/base/name_file.h"
#include "models/build/needed_tensors.h"
#include "models/plan/check_budgets.h"
#include "models/plan/make_plan.h"
#include "models/plan/measure_plan.h"
#include "models/plan/residency.h"
#include "models/published/published.h"
#include "passes/pipeline.h"

namespace moec {
namespace {

// At most one of the two is given.
struct MemoryFlags {
  std::string resident_budget, working_set;
};

struct PlanFlags {
  std::string source, family_file, calibration;
  MemoryFlags memory;
  DeviceFlags devices;
  bool list = false, json = false;
  ShardFlags shards;
  PassFlags passes;
};

struct Planned {
  MadePlan made;
  MeasuredPlan measured;
  std::optional<ResidentSet> resident;
  Diagnostics notes, findings;  // of the checkpoint; of check_budgets()
};

// The memory that --resident-budget names, or the share of --working-set that is planned with.
Result<std::optional<int64_t>> resident_budget(const MemoryFlags& flags) {
  if (!flags.resident_budget.empty()) {
    MOEC_ASSIGN(const int64_t bytes, bytes_of_flag("--resident-budget", flags.resident_budget));
    return std::optional(bytes);
  }
  if (flags.working_set.empty()) return std::optional<int64_t>();
  MOEC_ASSIGN(const int64_t bytes, bytes_of_flag("--working-set", flags.working_set));
  return std::optional(static_cast<int64_t>(kResidentShare * static_cast<double>(bytes)));
}

Result<PassOptions> plan_passes(const PlanFlags& flags) {
  MOEC_ASSIGN(PassOptions passes, pass_options(flags.passes));
  MOEC_TRY(choose_projection(flags.shards, flags.passes.form, passes.target));
  return passes;
}

Result<PlanRequest> plan_request(const PlanFlags& flags, const PassOptions& passes) {
  PlanRequest request;
  MOEC_ASSIGN(request.build, build_options(flags.shards, passes));
  MOEC_ASSIGN(request.cuts, cut_options(flags.shards, passes.target));
  request.kv = flags.shards.kv;
  request.mla = flags.shards.mla;
  return request;
}

Result<Planned> plan_source(const PlanFlags& flags, const PassOptions& passes) {
  std::optional<std::string> family_file;
  if (!flags.family_file.empty()) family_file = flags.family_file;
  MOEC_ASSIGN(const RunOptions run, run_options(flags.passes));
  MOEC_ASSIGN(PlanRequest request, plan_request(flags, passes));
  MOEC_TRY(choose_forms(passes.target, flags.calibration, request.build.weights));
  MOEC_ASSIGN(DeviceOptions devices, device_options(flags.devices));
  MOEC_ASSIGN(const std::optional<int64_t> budget, resident_budget(flags.memory));
  MOEC_TRY(require_model(flags.source));
  MOEC_ASSIGN(Checkpoint checkpoint, open_for_plan(flags.source, family_file, equal_tensors));
  Planned planned;
  planned.notes = std::move(checkpoint.warnings);
  MOEC_ASSIGN(planned.made,
              naming_file(make_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                    passes.target, request),
                          flags.source));
  const Diagnostics& chosen = planned.made.notes;
  planned.notes.insert(planned.notes.end(), chosen.begin(), chosen.end());
  const Plan& plan = planned.made.plan;
  MOEC_ASSIGN(planned.measured,
              measure_plan(plan, request.cuts, std::move(devices),
                           [&](size_t index) { return compiled_size(plan, index, passes, run); }));
  planned.findings = check_budgets(planned.measured.report, request.cuts);
  if (budget) planned.resident = resident_set(plan, planned.measured.report, *budget);
  return planned;
}

// Parameters are counted in each config, as `moec plan NAME` counts them: published figures are
// rounded, or missing.
int list_models(bool json) {
  auto list = nlohmann::ordered_json::array();
  for (const PublishedModel& model : published_models()) {
    const auto opened = open_for_plan(model.name, std::nullopt, equal_tensors);
    if (!opened) return report_failure(opened.error(), json);
    const int64_t parameters = parameter_count(opened->config);
    list.push_back(
        {{"name", model.name}, {"checkpoint", model.checkpoint}, {"parameters", parameters}});
    if (!json) print_out("{:<22} {:>15}  {}\n", model.name, parameters, model.checkpoint);
  }
  if (json) print_json(true, {{"models", list}});
  return kExitFine;
}

void print_planned(const PlanFlags& flags, const std::string& target, const Planned& planned) {
  const auto& [made, measured, resident, notes, findings] = planned;
  Diagnostics all = notes;
  all.insert(all.end(), findings.begin(), findings.end());
  const PlanOutput output{flags.source, target, made.plan, made.cuts, measured.report, resident};
  const std::optional<DevicePlan>& devices = measured.devices;
  if (!flags.json) {
    print_notes(notes);
    print_plan(output);
    if (devices) print_devices(*devices);
    if (!findings.empty()) say("{}\n", render(findings));
    return;
  }
  nlohmann::ordered_json json = plan_json(output);
  if (devices) json["devices"] = devices_json(*devices);
  if (devices && devices->replicas) json["replicas"] = replicas_json(*devices->replicas);
  print_json(!has_error(all), json, all);
}

int run_plan(const PlanFlags& flags) {
  if (flags.list) return list_models(flags.json);
  if (flags.source.empty())
    return report_failure(
        fail("plan.source", "SOURCE is missing", "moec plan --list lists the published models")
            .value(),
        flags.json);
  const auto passes = plan_passes(flags);
  if (!passes) return report_failure(passes.error(), flags.json);
  const auto planned = plan_source(flags, *passes);
  if (!planned) return report_failure(planned.error(), flags.json);
  print_planned(flags, passes->target.name, *planned);
  return has_error(planned->findings) ? kExitFellShort : kExitFine;
}

}  // namespace

static void add_memory_flags(CLI::App& command, MemoryFlags& flags) {
  command.add_option(
      "--resident-budget", flags.resident_budget,
      "Show how many experts of each layer fit into this much memory, in bytes or with a "
      "unit, e.g. 18GB");
  command
      .add_option(
          "--working-set", flags.working_set,
          "The same for a device's recommended working set, of which 0.71 is used (on a Mac "
          "the working set is 0.75 of the memory)")
      ->excludes("--resident-budget");
}

void add_plan_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show how a model would be exported: its shards, their bytes and budgets, the cost of a "
      "token. No weights are needed");
  auto flags = std::make_shared<PlanFlags>();
  command->add_flag("--list", flags->list, "List the published models that SOURCE may name");
  command->add_option("SOURCE", flags->source,
                      "Checkpoint folder, config.json, or the name of a published model");
  command->add_option("--calibration", flags->calibration,
                      "The folder of moec calibrate --sensitivity by which --weights auto:BITS "
                      "chooses bits");
  command->add_option("--family-file", flags->family_file,
                      "Read the config with this family descriptor instead of a built-in one "
                      "(models/families/README.md)");
  add_device_flags(*command, flags->devices);
  add_memory_flags(*command, flags->memory);
  command->add_flag("--json", flags->json, "Print the plan as JSON");
  add_shard_flags(*command, flags->shards);
  add_pass_flags(*command, flags->passes);
  command->footer(
      "Example: moec plan qwen3-30b-a3b --target ane --max-shard-mb moe=200 --weights int8\n"
      "Exit code 1: a shard exceeds its budget, and --allow-over-budget is not given.");
  command->callback([flags, &exit_code] { exit_code = run_plan(*flags); });
}

}  // namespace moec
