// moec plan: predicts the shards of an export and their costs from the model's config alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/flags/plan_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/options/option_bytes.h"
#include "frontends/jobs/calibrate/calibration_size.h"
#include "frontends/jobs/plan/plan_source.h"
#include "ir/base/byte_text.h"
#include "models/cluster/plan_devices.h"
#include "models/plan/join_layers.h"
#include "models/tensors/rope.h"

namespace moec {

namespace {

void print_replicas(const ReplicaPlan& plan) {
  print_out(
      "replicas: {} of the {} expert groups of a layer; the busiest device has at most {:.3f} "
      "times the mean load\n",
      plan.replicas, plan.groups, plan.worst_imbalance());
}

// Prints a table of the devices; if experts are replicated, also the imbalance of the load.
void print_devices(const DevicePlan& plan) {
  print_out("\n{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}  trunk: {}\n", "devices", "memory",
            "weights, cache", "activations", "free", "shards", enum_name(plan.trunk));
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const Device& device = plan.devices[d];
    const DeviceLoad& load = plan.loads[d];
    print_out("{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}", device.name, decimal_bytes(device.bytes),
              decimal_bytes(load.bytes), decimal_bytes(load.peak_bytes),
              decimal_bytes(device.bytes - load.needed()), load.units.size());
    // 0 means that the user stated no bandwidth.
    if (device.bandwidth > 0)
      print_out("  {:.2f} ms per token to read its weights",
                1e3 * load.token_bytes / device.bandwidth);
    print_out("\n");
  }
  if (plan.replicas) print_replicas(*plan.replicas);
}

// Describes the sizes 32, 32, 32, 32 as "4 x 32"; larger sizes come first.
std::string describe_groups(const std::vector<int64_t>& sizes) {
  // Groups often have equal sizes, so a count per size is shorter than the list.
  std::map<int64_t, int64_t, std::greater<>> counts;
  for (const int64_t size : sizes) ++counts[size];
  std::string text;
  for (const auto& [size, count] : counts)
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", count, size);
  return text;
}

std::string describe_budget(const KindReport& kind) {
  // 0 bytes means that there is no limit; it must not be a divisor.
  if (kind.budget_bytes == 0) return "none";
  const double margin = 100.0 - 100.0 * static_cast<double>(kind.largest_bytes) /
                                    static_cast<double>(kind.budget_bytes);
  return fmt::format("{:>9} {:>8}", decimal_bytes(kind.budget_bytes),
                     kind.within_budget() ? fmt::format("{:.1f} %", margin) : "OVER");
}

void print_kinds(const PlanReport& report) {
  print_out("{:<10} {:>7} {:>10} {:>10} {:>9} {:>8} {:>12} {:>10}\n", "shards", "count", "largest",
            "all", "budget", "margin", "activations", "resident");
  for (const KindReport& kind : report.kinds)
    print_out("{:<10} {:>7} {:>10} {:>10} {:<18} {:>12} {:>10}\n", enum_name(kind.kind),
              kind.shards, decimal_bytes(kind.largest_bytes), decimal_bytes(kind.total_bytes),
              describe_budget(kind), decimal_bytes(kind.peak_activation_bytes),
              decimal_bytes(kind.resident_bytes));
}

std::string describe_storage(const StoredWeights& stored) {
  if (stored.coding == WeightCoding::gguf_blocks)
    return "the file has weights in quantized blocks; an export dequantizes them, or keeps uniform "
           "codes with --weights copy";
  if (stored.block.empty())
    return fmt::format("the checkpoint stores its experts as {}; an export dequantizes them",
                       enum_name(stored.coding));
  const int64_t rows = stored.block.at(0), columns = stored.block.at(1);
  const std::string blocks = columns > 0 ? fmt::format("of {} x {}", rows, columns)
                             : rows > 0  ? "with a factor per row"
                                         : "with a factor per matrix";
  return fmt::format("the checkpoint stores matrices as {} {}; an export dequantizes them",
                     enum_name(stored.coding), blocks);
}

std::string describe_weights(const BuildOptions& build) {
  const std::string dtype(dtype_name(build.dtype));
  return build.weights.all_float() ? dtype : dtype + " and " + to_string(build.weights);
}

std::string describe_layers(const Plan& plan) {
  if (plan.build.layers_per_shard == 0) return "none";
  const auto layers = std::ssize(plan.model.layers);
  return describe_groups(layer_groups(layers, plan.build));
}

std::string describe_experts(const PlannedSource& planned, const ShardCut& cut) {
  return fmt::format("{}{} ({})", describe_groups(planned.measured.report.groups),
                     cut.slices > 1 ? fmt::format(", each in {} slices", cut.slices) : "",
                     is_whole_moe(cut.kind) ? "with the router" : "router in its own shard");
}

std::string describe_cut(const PlannedSource& planned, const ShardCut& cut) {
  const std::string slices = fmt::format("{} slice{}", cut.parts, cut.parts == 1 ? "" : "s");
  switch (cut.kind) {
    case ShardKind::layers:
      return "whole layers per shard: " + describe_layers(planned.made.plan);
    case ShardKind::lm_head:
      return "head: " + slices;
    case ShardKind::mlp:
      return "MLP of a dense layer: " + slices;
    case ShardKind::shared:
      return "shared expert of a layer: " + slices;
    case ShardKind::moe:
    case ShardKind::experts:
    case ShardKind::attention:
    case ShardKind::router:
      break;
  }
  return "experts of a layer: " + describe_experts(planned, cut);
}

void print_cuts(const PlannedSource& planned) {
  for (const ShardCut& cut : planned.made.cuts)
    print_out("{}: {}\n", describe_cut(planned, cut), cut.reason);
}

void print_cost(std::string_view name, const TokenCost& cost) {
  print_out("  {:<14} {:>10} {:>14} MACs\n", name, decimal_bytes(cost.bytes), cost.macs);
}

void print_memory(const PlannedSource& planned) {
  const PlanReport& report = planned.measured.report;
  print_out("memory\n");
  const auto row = [](std::string_view name, int64_t bytes, const std::string& note) {
    print_out("  {:<14} {:>10}  {}\n", name, decimal_bytes(bytes), note);
  };
  row("trunk", report.trunk_bytes,
      fmt::format("including head {}", decimal_bytes(report.head_bytes)));
  row("experts", report.expert_total_bytes,
      fmt::format("{} each", decimal_bytes(report.expert_bytes)));
  row("tables", report.embedding_bytes + report.rope_bytes,
      fmt::format("embedding {}, rotary {}", decimal_bytes(report.embedding_bytes),
                  decimal_bytes(report.rope_bytes)));
  if (planned.made.plan.model.keeps_cache())
    row("KV cache", report.cache_bytes,
        fmt::format("{} rows of {} bytes", planned.made.plan.build.context,
                    report.cache_bytes / planned.made.plan.build.context));
  row("total", report.total_bytes(), "");
}

void print_resident(const ResidentSet& set) {
  print_out("\nresident: {} of {} experts per layer in {}: {} for everything else, {} per slot\n",
            resident_capacity(set), set.experts, decimal_bytes(set.budget_bytes),
            decimal_bytes(set.base_bytes), decimal_bytes(set.slot_bytes));
}

// Prints the shards with their budgets, the cuts, the cost per token and the memory.
void print_plan(const PlannedSource& planned) {
  const PlanReport& report = planned.measured.report;
  const ModelConfig& model = planned.made.plan.model;
  const BuildOptions& build = planned.made.plan.build;
  print_out("{} ({}): {} parameters, {} layers\n", planned.source, model.family, report.parameters,
            model.layers.size());
  print_out("for {}: weights counted as {}, token widths {}, context {}\n\n", planned.target,
            describe_weights(build), fmt::join(build.tokens, " "), build.context);
  if (model.stored.coding != WeightCoding::plain)
    print_out("{}\n\n", describe_storage(model.stored));
  for (const RopeConfig& rope : model.rotations())
    if (const std::string factors = describe_factors(rope, build.context); !factors.empty())
      print_out("rotation: {}\n\n", factors);
  print_kinds(report);
  print_out("\n");
  print_cuts(planned);
  print_out("\ncost per token  weights read and multiplies\n");
  print_cost("dense, static", report.dense);
  print_cost("host-routed", report.host_routed);
  print_cost("ideal sparse", report.sparse);
  print_out("\n");
  print_memory(planned);
  if (planned.calibration_bytes)
    print_out("\ncalibration: moec calibrate writes up to {}\n",
              decimal_bytes(*planned.calibration_bytes));
  // The forecast states the capacity for the engine, whose caches and graphs need more memory.
  if (planned.resident && !planned.forecast) print_resident(*planned.resident);
}

// At most one of the two flags is given.
struct MemoryFlags {
  std::string resident_budget, working_set;
};

struct PlanCommandFlags {
  PlanFlags plan;
  MemoryFlags memory;
  ForecastOptions forecast;
  std::string cache_dtype = "f32";
  bool list = false, json = false;
  CLI::Option* calibration = nullptr;  // without a folder: show the bytes of a calibration
};

// Returns the bytes of --resident-budget, or the usable share of --working-set; nullopt without
// either.
// A working set is the memory that a device recommends, of which only a part should be used.
Result<std::optional<int64_t>> resident_budget(const MemoryFlags& flags) {
  if (!flags.resident_budget.empty()) {
    MOEC_ASSIGN(const int64_t bytes, bytes_of_flag("--resident-budget", flags.resident_budget));
    return std::optional(bytes);
  }
  if (flags.working_set.empty()) return std::optional<int64_t>();
  MOEC_ASSIGN(const int64_t bytes, bytes_of_flag("--working-set", flags.working_set));
  return std::optional(static_cast<int64_t>(kResidentShare * static_cast<double>(bytes)));
}

// Checks the flags before SOURCE is read, so that errors in flags are reported first.
Result<PlannedSource> plan_named(const PlanCommandFlags& flags) {
  MOEC_ASSIGN(PlanSourceOptions options, plan_options(flags.plan));
  MOEC_ASSIGN(options.resident_bytes, resident_budget(flags.memory));
  if (!flags.forecast.profile.empty()) options.forecast = flags.forecast;
  if (options.forecast && flags.cache_dtype == "f16") options.forecast->cache_dtype = DType::f16;
  MOEC_TRY(require_model(flags.plan.source));
  std::optional<uint64_t> bytes;
  // The flag without a folder asks for the size of a calibration that does not exist yet.
  if (flags.calibration->count() > 0 && flags.plan.calibration.empty()) {
    MOEC_ASSIGN(bytes, calibration_bytes(options.source, options.family));
  }
  MOEC_ASSIGN(PlannedSource planned, plan_source(std::move(options)));
  planned.calibration_bytes = bytes;
  return planned;
}

int list_models(bool json) {
  const auto models = published_sizes();
  if (!models) return report_failure(models.error(), json);
  if (json) {
    print_json(published_json(*models));
    return kExitFine;
  }
  for (const PublishedSize& model : *models)
    print_out("{:<24} {:>13}  {}{}\n", model.name, model.parameters, model.checkpoint,
              model.from.empty() ? "" : fmt::format(" (config: {})", model.from));
  return kExitFine;
}

void print_planned(const PlannedSource& planned) {
  print_notes(planned.notes);
  print_plan(planned);
  if (planned.measured.devices) print_devices(*planned.measured.devices);
  if (planned.forecast) print_out("\n{}", forecast_text(*planned.forecast));
  // Printed last, because a shard above its budget decides the exit code.
  if (!planned.findings.empty()) say("{}\n", render(planned.findings));
}

int run_plan(const PlanCommandFlags& flags) {
  if (flags.list) return list_models(flags.json);
  // CLI11 cannot require SOURCE, because --list runs without it.
  if (flags.plan.source.empty())
    return report_failure(
        fail("plan.source", "SOURCE is missing",
             flags.plan.calibration.empty()
                 ? "pass SOURCE, e.g. a name that moec plan --list prints"
                 : "pass SOURCE before --calibration, or pass a folder after --calibration")
            .value(),
        flags.json);
  const auto planned = plan_named(flags);
  if (!planned) return report_failure(planned.error(), flags.json);
  // A plan above its budget is still printed, because it shows which budget is too small.
  flags.json ? print_json(plan_json(*planned)) : print_planned(*planned);
  return has_error(planned->findings) ? kExitFellShort : kExitFine;
}

}  // namespace

static void add_memory_flags(CLI::App& command, MemoryFlags& flags) {
  command.add_option("--resident-budget", flags.resident_budget,
                     "Show how many experts per layer fit into this much memory, in bytes or with "
                     "a unit, e.g. 18GB");
  command
      .add_option("--working-set", flags.working_set,
                  "Like --resident-budget, for 0.71 of this recommended working set of a device "
                  "(on a Mac, the working set is 0.75 of the memory)")
      ->excludes("--resident-budget");
}

static void add_forecast_flags(CLI::App& command, PlanCommandFlags& flags) {
  ForecastOptions& forecast = flags.forecast;
  CLI::Option* profile = command.add_option(
      "--device-profile", forecast.profile,
      "Forecast tokens/s and memory of moec run from this file of moec doctor; the memory is that "
      "of the measured machine, or of --resident-budget");
  command
      .add_option("--capacity", forecast.capacity,
                  "With --device-profile: resident experts per layer (default: as many as fit)")
      ->check(whole_from(1))
      ->needs(profile);
  command
      .add_option("--filled", forecast.filled,
                  "With --device-profile: tokens in the cache while decoding, and of the prompt "
                  "(default: half of the context)")
      ->check(whole_from(1))
      ->needs(profile);
  command
      .add_option("--trace", forecast.trace,
                  "With --device-profile: a trace of moec trace, from which the hits of the slots "
                  "follow (default: all experts are equally likely)")
      ->needs(profile);
  command
      .add_option("--cache-dtype", flags.cache_dtype,
                  "With --device-profile: storage of the KV caches, f32 or f16, as in moec run")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str()
      ->needs(profile);
}

void add_plan_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("plan",
                         "Show how a model would be exported: its shards, their bytes and budgets, "
                         "the cost per token; no weights needed");
  auto flags = std::make_shared<PlanCommandFlags>();
  command->add_flag("--list", flags->list, "List the published models that SOURCE may name");
  add_plan_flags(*command, OptionUsers::device, flags->plan);
  // --calibration is shared with moec place, where its folder is required.
  flags->calibration = command->get_option("--calibration")->expected(0, 1);
  flags->calibration->description(flags->calibration->get_description() +
                                  "; without a folder, show the bytes that moec calibrate writes");
  add_memory_flags(*command, flags->memory);
  add_forecast_flags(*command, *flags);
  command->add_flag("--json", flags->json, "Print the plan as JSON");
  command->footer(
      "Example: moec plan qwen3-30b-a3b --target ane --max-shard-mb moe=200 --weights int8\n"
      "Exit code 1: a shard exceeds its budget and --allow-over-budget is not given");
  command->callback([flags, &exit_code] { exit_code = run_plan(*flags); });
}

}  // namespace moec
