// moec simulate: simulates expert caches on a trace.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/output_file.h"
#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/analyze_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/options/option_bytes.h"
#include "frontends/jobs/inspect/path_kind.h"
#include "frontends/jobs/residency/cache_routing.h"
#include "frontends/jobs/residency/simulate_trace.h"
#include "ir/base/output_apart.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

constexpr int64_t kMaxSlots = 65536;  // per layer; slots above kMaxExperts have no effect

struct SimulateFlags {
  SimulateOptions options;
  std::vector<std::string> capacities, policies;
  std::string expert_bytes;
  UserOutput plot{.flag = "--plot"};
  AnalyzeFlags run;  // used if the source is an export
  std::vector<double> biases;
  int64_t keep_top = 1;
};

// Flags that apply to only one of the two kinds of sources.
// A simulation replays the choices of a trace. A run of an export makes new choices, which
// --cache-bias affects.
constexpr std::array kTraceFlags = {"--pool",         "--step-tokens", "--profile", "--pin-top-k",
                                    "--expert-bytes", "--export",      "--plot"};
constexpr std::array kExportFlags = {
    "--cache-bias",  "--keep-top", "--prompt",    "--text",    "--tokens",
    "--prompts",     "--window",   "--precision", "--threads", "--activations",
    "--cache-dtype", "--memory",   "--quiet"};

template <class Names>
Status refuse_given(const CLI::App& command, const Names& names, const char* source) {
  for (const char* name : names)
    if (command.count(name) > 0)
      return fail("simulate.flags", fmt::format("{} is for {}", name, source),
                  "omit the flag, or pass another source");
  return {};
}

Result<SimulateOptions> simulate_options(const SimulateFlags& flags) {
  SimulateOptions options = flags.options;
  for (const std::string& word : flags.capacities) {
    // An empty list of capacities means all capacities. In a longer list, `all` is refused, because
    // it is not a number.
    if (word == "all" && flags.capacities.size() == 1) break;
    const auto slots = parse_count(word);
    if (!slots || *slots > kMaxSlots)
      return fail(
          "simulate.capacity",
          fmt::format("--capacity: '{}' is not a number of slots from 1 to {}", word, kMaxSlots),
          "pass numbers, e.g. 2,4,8, or all");
    options.cache.capacities.push_back(*slots);
  }
  for (const std::string& name : flags.policies)
    // The validator of --policy accepts only these names.
    options.cache.policies.push_back(*parse_enum<SimulatedPolicy>(name));
  if (flags.expert_bytes.empty()) return options;
  MOEC_ASSIGN(options.expert_bytes, bytes_of_flag("--expert-bytes", flags.expert_bytes));
  return options;
}

Status simulate(const SimulateFlags& flags) {
  MOEC_ASSIGN(SimulateOptions options, simulate_options(flags));
  // Before the simulation, so that a refused file costs no time.
  MOEC_TRY(check_user_output(flags.plot, options.trace));
  Progress progress("simulate", false, "points");
  options.progress = progress.callback();
  MOEC_ASSIGN(const Simulation simulation, simulate_trace(options));
  progress.finish();
  if (!flags.plot.path.empty())
    MOEC_TRY(write_user_file(flags.plot.path, simulation_svg(simulation)));
  if (flags.run.json)
    print_json(simulation_json(simulation));
  else
    print_out("{}", simulation_table(simulation));
  return {};
}

Result<CacheRoutingOptions> routing_options(const SimulateFlags& flags) {
  CacheRoutingOptions options{.biases = flags.biases, .keep_top = flags.keep_top};
  MOEC_ASSIGN(options.cache, simulate_options(flags).transform(
                                 [](SimulateOptions all) { return std::move(all.cache); }));
  // Each capacity runs the whole text again, so all of them would take too long to be a default.
  if (options.cache.capacities.empty())
    return fail("simulate.capacity",
                "an export is run once per capacity, but no capacity was given",
                "pass capacities, e.g. --capacity 4,8");
  if (options.cache.policies.empty()) options.cache.policies = {SimulatedPolicy::lru};
  // 0 is the routing of the model itself.
  if (options.biases.empty()) options.biases = {0};
  // The export to run is the argument TRACE.
  AnalyzeFlags run = flags.run;
  run.options.source = flags.options.trace;
  MOEC_ASSIGN(options.run, analyze_options(run));
  return options;
}

Status simulate_routing(const SimulateFlags& flags) {
  MOEC_ASSIGN(CacheRoutingOptions options, routing_options(flags));
  const StopSignals signals;
  Progress progress("simulate", flags.run.quiet, "tokens");
  // Each combination runs the same tokens, so the total is a multiple.
  const size_t runs =
      options.cache.capacities.size() * options.cache.policies.size() * options.biases.size();
  options.run.stop = [] { return StopSignals::caught() != 0; };
  options.run.progress = [&](uint64_t tokens, uint64_t total, const std::string& part) {
    progress.advance(tokens, runs * total, part);
  };
  const auto report = simulate_cache_routing(options);
  progress.finish();
  // Comes after finish(), so that the error begins on a clear line.
  MOEC_TRY(report);
  if (flags.run.json) {
    print_json(cache_routing_json(*report));
    return {};
  }
  print_notes(report->notes, flags.run.quiet);
  print_out("{}", cache_routing_table(*report));
  return {};
}

Status simulate_source(const CLI::App& command, const SimulateFlags& flags) {
  // The kind of the source decides which flags apply, so CLI11 cannot check them.
  if (kind_of_path(flags.options.trace) == PathKind::exported) {
    MOEC_TRY(refuse_given(command, kTraceFlags, "a trace, and the source is an export"));
    return simulate_routing(flags);
  }
  MOEC_TRY(refuse_given(command, kExportFlags, "an export, and the source is a trace"));
  return simulate(flags);
}

int run_simulate(const CLI::App& command, const SimulateFlags& flags) {
  const Status status = simulate_source(command, flags);
  // A simulation of a trace cannot be stopped, so it never fails with this code.
  return status ? kExitFine : report_stopped(status.error(), kAnalyzeInterrupted, flags.run.json);
}

void add_cache_flags(CLI::App& command, SimulateFlags& flags) {
  SimulatedCache& cache = flags.options.cache;
  command
      .add_option("--capacity", flags.capacities,
                  "Slots per layer, e.g. 2,4,8, or all: every number that affects the result "
                  "(default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--policy", flags.policies,
                  "Eviction policies: lcp, lru, lfu, pinned, belady (default: all; pinned only "
                  "with --profile)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of_enum<SimulatedPolicy>());
  command.add_flag("--pool", cache.pool,
                   "Let all layers share one pool with the total number of slots");
  command.add_option("--step-tokens", cache.tokens, "Tokens per step; 1: decoding")
      ->check(whole_from(1))
      ->capture_default_str();
  command.add_option("--profile", cache.profile,
                     "For the policy pinned: a profile.json whose most chosen experts are pinned");
  command
      .add_option("--pin-top-k", cache.pin_top_k,
                  "Experts per layer to pin (default: half of the slots)")
      ->check(whole_from(1));
}

void add_routing_flags(CLI::App& command, SimulateFlags& flags) {
  command
      .add_option("--cache-bias", flags.biases,
                  "For an export, inexact: raise the logits of resident experts by these fractions "
                  "of the logits' range, e.g. 0.1,0.3 (default: 0)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(finite_from_zero());
  command
      .add_option("--keep-top", flags.keep_top,
                  "With --cache-bias: number of best experts that a token always keeps")
      ->check(whole_from(0))
      ->capture_default_str();
  add_text_run_flags(command, flags.run);
}

}  // namespace

void add_simulate_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "simulate",
      "Simulate expert caches on a trace, with several eviction policies and the optimal one");
  auto flags = std::make_shared<SimulateFlags>();
  command
      ->add_option("TRACE", flags->options.trace,
                   "A trace from moec trace, or an exported folder to run with cache-aware routing")
      ->required();
  add_cache_flags(*command, *flags);
  CLI::Option* bytes = command->add_option("--expert-bytes", flags->expert_bytes,
                                           "Bytes per expert, e.g. 1700000 or 1.7MB");
  command
      ->add_option("--export", flags->options.exported,
                   "An exported folder from which to read the bytes per expert")
      ->excludes(bytes);
  command->add_option("--plot", flags->plot.path, "Write the hit-rate curves to this SVG file");
  command->add_flag("--force", flags->plot.force, "Replace the file that --plot names");
  add_routing_flags(*command, *flags);
  command->footer("Example: moec simulate tinymoe.moetrace --capacity 2,4,8 --plot hits.svg");
  command->callback([flags, command, &exit_code] { exit_code = run_simulate(*command, *flags); });
}

}  // namespace moec
