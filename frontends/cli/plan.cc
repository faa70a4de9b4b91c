// moec plan: how a model would be cut into shards and what they would cost, from its config alone.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/byte_flags.h"
#include "frontends/cli/flags/device_flags.h"
#include "frontends/cli/flags/export_flags.h"
#include "frontends/cli/flags/pass_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/shard_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/plan_output.h"
#include "frontends/cli/print/print_devices.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/ane_book.h"
#include "frontends/plan/plan_json.h"
#include "frontends/plan/plan_source.h"

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
  CoremlFlags coreml;
  PassFlags passes;
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
  if (!flags.coreml.compat.empty()) cut_for_ane_book(request.cuts);
  return request;
}

// What is read of flags comes before what is read of SOURCE.
Result<PlannedSource> plan_named(const PlanFlags& flags) {
  PlanSourceOptions options;
  options.source = flags.source;
  if (!flags.family_file.empty()) options.family_file = flags.family_file;
  MOEC_ASSIGN(options.passes, plan_passes(flags));
  MOEC_ASSIGN(options.run, run_options(flags.passes));
  MOEC_ASSIGN(options.request, plan_request(flags, options.passes));
  options.calibration = flags.calibration;
  MOEC_ASSIGN(options.devices, device_options(flags.devices));
  MOEC_ASSIGN(options.resident_bytes, resident_budget(flags.memory));
  if (!flags.coreml.compat.empty())
    options.ane_book =
        AneBookForm{options.request.build.tokens.size() == 1 || flags.coreml.widths == "range"};
  MOEC_TRY(require_model(flags.source));
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

int run_plan(const PlanFlags& flags) {
  if (flags.list) return list_models(flags.json);
  if (flags.source.empty())
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
  add_compat_flags(*command, flags->coreml);
  command->get_option("--widths")->needs("--compat");
  add_pass_flags(*command, flags->passes);
  command->footer(
      "Example: moec plan qwen3-30b-a3b --target ane --max-shard-mb moe=200 --weights int8\n"
      "Exit code 1: a shard exceeds its budget, and --allow-over-budget is not given.");
  command->callback([flags, &exit_code] { exit_code = run_plan(*flags); });
}

}  // namespace moec
