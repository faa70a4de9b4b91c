// moec plan: what a model would become, from its config alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/device_flags.h"
#include "frontends/cli/flags/parse_bytes.h"
#include "frontends/cli/flags/pass_flags.h"
#include "frontends/cli/flags/shard_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/plan_output.h"
#include "frontends/cli/print/print_devices.h"
#include "frontends/export/compile_shard.h"
#include "frontends/hf/open_source.h"
#include "ir/base/json_output.h"
#include "models/plan/plan_devices.h"
#include "models/plan/plan_model.h"
#include "models/plan/plan_report.h"
#include "models/plan/resolve_build.h"
#include "models/published/published.h"
#include "passes/pipeline.h"

namespace moec {
namespace {

struct PlanFlags {
  std::string source, family_file, count_as;
  std::string resident_budget, working_set;
  DeviceFlags devices;
  bool list = false, json = false;
  ShardFlags shards;
  PassFlags passes;
};

Result<CutOptions> cut_options_of(const PlanFlags& flags, const Target& target) {
  MOEC_ASSIGN(CutOptions options, cut_options(flags.shards, target));
  if (!flags.count_as.empty()) options.count_as = parse_enum<WeightStorage>(flags.count_as);
  return options;
}

struct Planned {
  Plan plan;
  std::vector<ShardCut> cuts;
  PlanReport report;
  std::optional<ResidentSet> resident;
  std::optional<DevicePlan> devices;
  Diagnostics notes;
};

// What --resident-budget, or a share of --working-set, leaves for experts.
Result<std::optional<ResidentSet>> resident_set(const PlanFlags& flags, const Plan& plan,
                                                const PlanReport& report) {
  const bool given = !flags.resident_budget.empty();
  if ((!given && flags.working_set.empty()) || report.expert_bytes == 0) return std::nullopt;
  MOEC_ASSIGN(const int64_t bytes, given ? bytes_of_flag("--resident-budget", flags.resident_budget)
                                         : bytes_of_flag("--working-set", flags.working_set));
  ResidentSet set;
  set.budget_bytes =
      given ? bytes : static_cast<int64_t>(kResidentShare * static_cast<double>(bytes));
  set.base_bytes = report.total_bytes() - report.expert_total_bytes;
  set.slot_bytes = report.expert_bytes;
  for (const LayerConfig& layer : plan.model.layers) set.layers += layer.moe ? 1 : 0;
  set.experts = plan.model.moe.experts;
  return set;
}

Status add_devices(const PlanFlags& flags, const std::vector<ShardSize>& sizes, Planned& planned) {
  MOEC_ASSIGN(planned.resident, resident_set(flags, planned.plan, planned.report));
  MOEC_ASSIGN(DeviceOptions options, device_options(flags.devices));
  if (options.devices.empty()) return {};
  MOEC_ASSIGN(planned.devices,
              plan_devices(planned.plan, sizes, planned.report, std::move(options)));
  return {};
}

Result<Planned> make_plan(const PlanFlags& flags, const PassOptions& passes) {
  std::optional<std::string> family_file;
  if (!flags.family_file.empty()) family_file = flags.family_file;
  MOEC_ASSIGN(const RunOptions run, run_options(flags.passes));
  MOEC_ASSIGN(BuildOptions build, build_options(flags.shards, passes));
  MOEC_ASSIGN(const CutOptions options, cut_options_of(flags, passes.target));
  MOEC_ASSIGN(Checkpoint checkpoint, open_for_plan(flags.source, family_file));
  Planned planned;
  planned.notes = std::move(checkpoint.warnings);
  MOEC_TRY(check_kv_flag(flags.shards.kv, checkpoint.config));
  MOEC_TRY(check_mla_flag(flags.shards.mla, checkpoint.config));
  MOEC_ASSIGN(planned.cuts, resolve_build(checkpoint.config, passes.target, options, build));
  MOEC_ASSIGN(planned.plan, plan_model(std::move(checkpoint.config), std::move(checkpoint.weights),
                                       std::move(build)));
  const Plan& plan = planned.plan;
  MOEC_ASSIGN(const std::vector<ShardSize> sizes, measure_shards(plan, [&](size_t index) {
                return compiled_peak(plan, index, passes, run);
              }));
  planned.report = report_plan(plan, sizes, options);
  MOEC_TRY(add_devices(flags, sizes, planned));
  return planned;
}

int list_models(bool json) {
  auto list = nlohmann::ordered_json::array();
  for (const PublishedModel& model : published_models()) {
    list.push_back(
        {{"name", model.name}, {"checkpoint", model.checkpoint}, {"parameters", model.parameters}});
    if (!json) fmt::print("{:<22} {:>15}  {}\n", model.name, model.parameters, model.checkpoint);
  }
  if (json) fmt::print("{}\n", json_text(list));
  return kExitFine;
}

int run_plan(const PlanFlags& flags) {
  if (flags.list) return list_models(flags.json);
  if (flags.source.empty())
    return report_failure(
        fail("plan.source", "there is no SOURCE", "moec plan --list names the published models")
            .value(),
        flags.json);
  const auto passes = pass_options(flags.passes);
  if (!passes) return report_failure(passes.error(), flags.json);
  const auto planned = make_plan(flags, *passes);
  if (!planned) return report_failure(planned.error(), flags.json);
  const PlanOutput output{flags.source,  passes->target.name, planned->plan,
                          planned->cuts, planned->report,     planned->resident};
  if (flags.json) {
    nlohmann::ordered_json json = plan_json(output);
    if (planned->devices) json["devices"] = devices_json(*planned->devices);
    if (planned->devices && planned->devices->replicas)
      json["replicas"] = replicas_json(*planned->devices->replicas);
    fmt::print("{}\n", json_text(json));
  } else {
    print_notes(planned->notes);
    print_plan(output);
    if (planned->devices) print_devices(*planned->devices);
  }
  return planned->report.within_budgets() ? kExitFine : kExitFellShort;
}

}  // namespace

static void add_memory_flags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--resident-budget", flags.resident_budget,
                     "How many experts of each layer fit into this much memory, e.g. 18GB");
  command
      .add_option("--working-set", flags.working_set,
                  "The same with 0.71 of a device's recommended working set (on a Mac 0.75 of "
                  "its memory)")
      ->excludes("--resident-budget");
}

void add_plan_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "plan", "Tell what a model would become: shards, bytes, budgets, cost of a token");
  auto flags = std::make_shared<PlanFlags>();
  command->add_flag("--list", flags->list, "Name the published models");
  command->add_option("SOURCE", flags->source,
                      "Checkpoint folder, config.json, or the name of a published model");
  command->add_option("--family-file", flags->family_file, "A family descriptor of your own");
  command
      ->add_option(
          "--count-as", flags->count_as,
          "Count weights, and cut by budgets, as if they were stored so; int4 with a scale "
          "and an offset for each 64 (default: as the shards hold them)")
      ->check(CLI::IsMember({"f32", "f16", "int8", "int4"}));
  add_device_flags(*command, flags->devices);
  add_memory_flags(*command, *flags);
  command->add_flag("--json", flags->json, "Print as JSON");
  add_shard_flags(*command, flags->shards);
  add_pass_flags(*command, flags->passes);
  command->footer(
      "Example: moec plan qwen3-30b-a3b --target ane --max-shard-mb moe=200 --count-as int8\n"
      "Exit code 1: a shard is above its budget.");
  command->callback([flags, &exit_code] { exit_code = run_plan(*flags); });
}

}  // namespace moec
