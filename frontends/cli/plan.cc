// moec plan: how a model would be cut into shards and what they would cost, from its config alone.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/byte_flags.h"
#include "frontends/cli/flags/device_flags.h"
#include "frontends/cli/flags/plan_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/plan_output.h"
#include "frontends/cli/print/print_devices.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/plan/plan_json.h"
#include "frontends/jobs/plan/plan_source.h"

namespace moec {
namespace {

// At most one of the two is given.
struct MemoryFlags {
  std::string resident_budget, working_set;
};

struct PlanCommandFlags {
  PlanFlags plan;
  MemoryFlags memory;
  DeviceFlags devices;
  bool list = false, json = false;
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

// What is read of flags comes before what is read of SOURCE.
Result<PlannedSource> plan_named(const PlanCommandFlags& flags) {
  MOEC_ASSIGN(PlanSourceOptions options, plan_options(flags.plan));
  MOEC_ASSIGN(options.devices, device_options(flags.devices));
  MOEC_ASSIGN(options.resident_bytes, resident_budget(flags.memory));
  MOEC_TRY(require_model(flags.plan.source));
  return plan_source(std::move(options));
}

int list_models(bool json) {
  const auto models = published_sizes();
  if (!models) return report_failure(models.error(), json);
  if (json) {
    print_json(published_json(*models));
    return kExitFine;
  }
  for (const PublishedSize& model : *models)
    print_out("{:<22} {:>15}  {}\n", model.name, model.parameters, model.checkpoint);
  return kExitFine;
}

void print_planned(const PlannedSource& planned) {
  print_notes(planned.notes);
  print_plan(planned);
  if (planned.measured.devices) print_devices(*planned.measured.devices);
  if (!planned.findings.empty()) say("{}\n", render(planned.findings));
}

int run_plan(const PlanCommandFlags& flags) {
  if (flags.list) return list_models(flags.json);
  if (flags.plan.source.empty())
    return report_failure(
        fail("plan.source", "SOURCE is missing", "moec plan --list lists the published models")
            .value(),
        flags.json);
  const auto planned = plan_named(flags);
  if (!planned) return report_failure(planned.error(), flags.json);
  flags.json ? print_json(plan_json(*planned)) : print_planned(*planned);
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
  auto flags = std::make_shared<PlanCommandFlags>();
  command->add_flag("--list", flags->list, "List the published models that SOURCE may name");
  add_plan_flags(*command, flags->plan);
  add_device_flags(*command, flags->devices);
  add_memory_flags(*command, flags->memory);
  command->add_flag("--json", flags->json, "Print the plan as JSON");
  command->footer(
      "Example: moec plan qwen3-30b-a3b --target ane --max-shard-mb moe=200 --weights int8\n"
      "Exit code 1: a shard exceeds its budget, and --allow-over-budget is not given.");
  command->callback([flags, &exit_code] { exit_code = run_plan(*flags); });
}

}  // namespace moec
