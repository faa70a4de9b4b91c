#include "frontends/jobs/plan/forecast_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/residency/cache_steps.h"
#include "frontends/jobs/plan/shard_work.h"
#include "ir/base/at.h"
#include "ir/base/byte_text.h"
#include "ir/target/device_profile_json.h"

namespace moec {
namespace {

// A session prepares the inputs of a graph, takes its outputs and checks its files in the time of
// about this many ops. Measured on a Zen 4 with 0.22 µs per op: 5 µs per graph of tinymoe, whose
// weights the caches hold, and 16 µs per graph of SmolLM2.
double session_ops(int64_t weight_bytes) {
  constexpr int64_t kCachedBytes = int64_t{16} << 20;
  return weight_bytes <= kCachedBytes ? 25 : 75;
}

class Forecaster {
 public:
  Forecaster(const Plan& plan, const MeasuredPlan& measured, const DeviceProfile& profile,
             const CompileWidth& compile)
      : plan_(plan), measured_(measured), profile_(profile), compile_(compile) {}

  // Adds the time of the computation to the phase. `cached` is the mean number of filled rows.
  Status add_work(PhaseForecast& phase, double cached) {
    const auto used = static_cast<double>(phase.used);
    std::map<size_t, WorkSeconds> known;  // by measured shard
    for (size_t i = 0; i < plan_.shards.size(); ++i) {
      const size_t measured = measured_.sizes[i].measured;
      const double runs = chance_of_one(chance_to_run(plan_, i), used);
      auto found = known.find(measured);
      if (found == known.end()) {
        MOEC_ASSIGN(const Shard shard, compile_(measured, phase.width));
        ops_[{measured, phase.width}] = std::ssize(shard.ops);
        const WorkSetting setting = setting_of(measured, phase, {cached, runs});
        MOEC_ASSIGN(const WorkSeconds seconds, price(count_work(shard, setting), profile_));
        found = known.emplace(measured, seconds).first;
      }
      phase.work += found->second.scaled(runs / used);
      phase.work.ops += runs / used * session_seconds();
    }
    return {};
  }

  // Ops of all graphs of the widths that were added.
  int64_t ops() const {
    int64_t sum = 0;
    for (const ShardSize& size : measured_.sizes)
      for (const auto& [key, ops] : ops_) sum += key.first == size.measured ? ops : 0;
    return sum;
  }

 private:
  struct Conditions {
    double cached = 0, runs = 1;  // filled rows; chance that the graph runs
  };

  // Of the session, per run of a graph.
  double session_seconds() const {
    const PlanReport& report = measured_.report;
    return session_ops(report.trunk_bytes + report.expert_total_bytes) * profile_.op_seconds;
  }

  WorkSetting setting_of(size_t index, const PhaseForecast& phase,
                         const Conditions& conditions) const {
    const auto used = static_cast<double>(phase.used);
    // The graph computes the padding too. Padding chooses no experts if the host routes; otherwise,
    // all of it is likely to choose the same few, which are not counted.
    WorkSetting setting{.tokens = static_cast<double>(phase.width)};
    setting.cached_keys = std::min(conditions.cached, keys_seen(plan_.shards[index]));
    const MoeConfig& moe = plan_.model.moe;
    if (moe.experts == 0 || conditions.runs == 0) return setting;
    const double share = static_cast<double>(moe.routing.top_k) / static_cast<double>(moe.experts);
    const double chosen = chance_of_one(share, used);
    // The work is that of a run that takes place, so the chance is conditional on the run.
    setting.expert_chance = std::min(1.0, chosen / conditions.runs);
    setting.expert_tokens = used * share / chosen;
    return setting;
  }

  // Maximum number of earlier keys that a token of the shard sees.
  double keys_seen(const ShardDecl& shard) const {
    const auto all = static_cast<double>(plan_.build.context);
    double most = 0;
    for (int64_t layer = shard.layer; layer < shard.layer + shard.layers; ++layer) {
      if (layer < 0) continue;
      const LayerConfig& config = plan_.model.layers[static_cast<size_t>(layer)];
      double seen = all;
      // A window includes the query's own key.
      if (config.window > 0) seen = std::min(seen, static_cast<double>(config.window - 1));
      if (config.chunk > 0) seen = std::min(seen, static_cast<double>(config.chunk));
      most = std::max(most, seen);
    }
    return most;
  }

  const Plan& plan_;
  const MeasuredPlan& measured_;
  const DeviceProfile& profile_;
  const CompileWidth& compile_;
  std::map<std::pair<size_t, int64_t>, int64_t> ops_;  // by measured shard and width
};

// Indexes of the layers that have experts.
std::set<int64_t> moe_layers(const Plan& plan) {
  std::set<int64_t> layers;
  for (int64_t layer = 0; layer < std::ssize(plan.model.layers); ++layer)
    if (at(plan.model.layers, layer).moe) layers.insert(layer);
  return layers;
}

bool pages_experts(const Plan& plan) {
  return std::any_of(plan.shards.begin(), plan.shards.end(),
                     [](const ShardDecl& shard) { return is_expert_group(shard.kind); });
}

Status check_capacity(int64_t capacity, const Forecast& forecast) {
  if (capacity == 0 || capacity == forecast.experts) return {};
  if (forecast.experts == 0)
    return fail("forecast.capacity",
                "--capacity is the number of resident experts, but the model is dense",
                "omit --capacity");
  if (capacity > forecast.experts)
    return fail(
        "forecast.capacity",
        fmt::format("--capacity is {}, but a layer has {} experts", capacity, forecast.experts),
        "pass at most the number of experts, or omit --capacity");
  if (forecast.pages_experts) return {};
  return fail("forecast.capacity",
              "--capacity requires experts in shards of their own, but the plan has none",
              "pass --routing host, or omit --capacity");
}

// Chooses the number of slots and completes the memory.
Status choose_capacity(const Plan& plan, const PlanReport& report, int64_t requested,
                       Forecast& forecast) {
  MOEC_TRY(check_capacity(requested, forecast));
  ForecastMemory& memory = forecast.memory;
  std::optional<ResidentSet> set = resident_set(plan, report, memory.budget_bytes);
  if (!set) return {};
  // The engine needs memory for graphs and activations, and wider caches than the plan counts.
  set->base_bytes = memory.needed();
  forecast.largest_capacity = resident_capacity(*set);
  // A session with slots needs at least one per layer.
  const int64_t chosen =
      requested > 0 ? requested : std::max<int64_t>(forecast.largest_capacity, 1);
  forecast.capacity = forecast.pages_experts ? chosen : forecast.experts;
  memory.experts_bytes = forecast.capacity == forecast.experts
                             ? report.expert_total_bytes
                             : set->layers * forecast.capacity * report.expert_bytes;
  return {};
}

// Sets the share of missing experts if choices are equally likely: each of the slots has the chosen
// expert with the same chance.
void assume_equal_choices(Forecast& forecast) {
  if (forecast.experts == 0) return;
  const double missing =
      1 - static_cast<double>(forecast.capacity) / static_cast<double>(forecast.experts);
  forecast.decode.miss_rate = forecast.prefill.miss_rate = missing;
}

// Returns the first difference between the layers and experts of a trace and those of the model;
// empty if there is none.
std::string trace_difference(const std::vector<TraceRow>& rows, const std::set<int64_t>& layers,
                             int64_t experts) {
  std::set<int64_t> missing = layers;
  for (const TraceRow& row : rows) {
    if (!layers.contains(row.layer))
      return fmt::format("the trace has experts of layer {}, which is not a MoE layer of the model",
                         row.layer);
    if (row.expert >= experts)
      return fmt::format("the trace has expert {}, but a layer of the model has {} experts",
                         row.expert, experts);
    missing.erase(row.layer);
  }
  if (missing.empty()) return "";
  return fmt::format("the trace has no experts of layer {}, which is a MoE layer of the model",
                     *missing.begin());
}

Status check_trace(const std::vector<TraceRow>& rows, const Plan& plan, const std::string& file) {
  std::string difference = trace_difference(rows, moe_layers(plan), plan.model.moe.experts);
  if (difference.empty()) return {};
  return fail("forecast.trace", std::move(difference), "pass a trace of the same model",
              {.file = file});
}

// Sets the share of missing experts of a phase from a simulation. The engine's default policy is
// lru.
Status simulate_misses(const std::vector<TraceRow>& rows, int64_t capacity, PhaseForecast& phase) {
  const std::vector<CacheStep> steps = cache_steps(rows, phase.used);
  // The simulation needs all experts of a step at once. A session needs one at a time, and reuses
  // hardly any slot in this case.
  if (largest_step(steps) > capacity) {
    phase.miss_rate = 1;
    return {};
  }
  MOEC_ASSIGN(const CacheCounts counts,
              simulate_policy(steps, PolicyKind::lru, {.slots = capacity}, {}));
  phase.miss_rate = 1 - counts.hit_rate();
  return {};
}

Status read_misses(const std::string& trace, const Plan& plan, Forecast& forecast) {
  assume_equal_choices(forecast);
  if (trace.empty()) return {};
  MOEC_ASSIGN(const std::vector<TraceRow> rows, read_trace(trace));
  MOEC_TRY(check_trace(rows, plan, trace));
  forecast.from_trace = true;
  if (forecast.capacity == forecast.experts) return {};
  MOEC_TRY(simulate_misses(rows, forecast.capacity, forecast.decode));
  return simulate_misses(rows, forecast.capacity, forecast.prefill);
}

void add_reads(const Plan& plan, int64_t expert_bytes, const DeviceProfile& profile,
               PhaseForecast& phase) {
  const MoeConfig& moe = plan.model.moe;
  if (phase.miss_rate == 0 || expert_bytes == 0) return;
  const auto used = static_cast<double>(phase.used), bytes = static_cast<double>(expert_bytes);
  const double distinct = distinct_experts(used, moe.routing.top_k, moe.experts);
  const auto layers = static_cast<double>(moe_layers(plan).size());
  const double misses = layers * distinct * phase.miss_rate / used;
  phase.read_seconds = misses * bytes / profile.read_rate(bytes);
}

int64_t state_bytes(const MeasuredPlan& measured) {
  int64_t bytes = 0;
  for (const ShardSize& size : measured.sizes) bytes += size.state_bytes;
  return bytes;
}

Result<int64_t> filled_rows(const Plan& plan, int64_t requested) {
  if (requested == 0) return plan.build.context / 2;
  if (requested < plan.build.context) return requested;
  return fail("forecast.filled",
              fmt::format("--filled is {}, but the context has {} positions", requested,
                          plan.build.context),
              "pass fewer tokens, or raise --context");
}

}  // namespace

Result<Forecast> forecast_plan(const Plan& plan, const MeasuredPlan& measured,
                               const ForecastOptions& options, const CompileWidth& compile) {
  MOEC_ASSIGN(const DeviceProfile profile, read_device_profile(options.profile));
  Forecast forecast;
  MOEC_ASSIGN(forecast.filled, filled_rows(plan, options.filled));
  forecast.machine = profile.machine();
  forecast.context = plan.build.context;
  forecast.experts = moe_layers(plan).empty() ? 0 : plan.model.moe.experts;
  forecast.pages_experts = pages_experts(plan);
  forecast.decode.width = plan.build.tokens.front();
  forecast.prefill.width = plan.build.tokens.back();
  // A run decodes one token at any width. A prompt fills the width unless the prompt is shorter.
  forecast.decode.used = 1;
  forecast.prefill.used = std::clamp<int64_t>(forecast.filled, 1, forecast.prefill.width);

  Forecaster forecaster(plan, measured, profile, compile);
  const auto filled = static_cast<double>(forecast.filled);
  MOEC_TRY(forecaster.add_work(forecast.decode, filled));
  // The cache fills while the prompt is processed, so a run sees half of it on average.
  MOEC_TRY(forecaster.add_work(forecast.prefill, filled / 2));
  forecast.memory =
      memory_without_experts(plan, measured.report,
                             {forecaster.ops(), options.budget_bytes.value_or(profile.memory_bytes),
                              state_bytes(measured), options.cache_dtype});
  MOEC_TRY(choose_capacity(plan, measured.report, options.capacity, forecast));
  MOEC_TRY(read_misses(options.trace, plan, forecast));
  for (PhaseForecast* phase : {&forecast.decode, &forecast.prefill})
    add_reads(plan, measured.report.expert_bytes, profile, *phase);
  forecast.load_seconds =
      static_cast<double>(measured.report.trunk_bytes + forecast.memory.experts_bytes) /
      profile.sequential_rate;
  return forecast;
}

namespace {

// A rate with two significant digits, or all digits before the point.
std::string rate_text(double rate) {
  const int digits = rate >= 9.95 ? 0 : rate >= 0.995 ? 1 : 2;
  return fmt::format("{:.{}f}", rate, digits);
}

std::string phase_text(std::string_view name, const PhaseForecast& phase) {
  const WorkSeconds& work = phase.work;
  return fmt::format(
      "  {:<8} {:>7} tokens/s  {:.2f} ms per token: products {:.2f}, attention {:.2f}, elements "
      "{:.2f}, ops {:.2f}, reads {:.2f}\n",
      name, rate_text(phase.tokens_per_second()), 1e3 * phase.seconds(), 1e3 * work.products,
      1e3 * work.attention, 1e3 * work.elements, 1e3 * work.ops, 1e3 * phase.read_seconds);
}

std::string experts_text(const Forecast& forecast) {
  if (forecast.experts == 0) return "";
  if (forecast.capacity == forecast.experts)
    return fmt::format("  experts  all {} of a layer in memory\n", forecast.experts);
  return fmt::format(
      "  experts  {} of {} per layer in slots, at most {} fit; {:.0f} % of the "
      "choices hit, {}\n",
      forecast.capacity, forecast.experts, forecast.largest_capacity,
      100 * (1 - forecast.decode.miss_rate),
      forecast.from_trace ? "according to the trace"
                          : "if all experts are equally likely (see --trace)");
}

}  // namespace

std::string forecast_text(const Forecast& forecast) {
  const ForecastMemory& memory = forecast.memory;
  std::string text =
      fmt::format("forecast for {}, {} tokens in the cache\n", forecast.machine, forecast.filled);
  text += phase_text("decode", forecast.decode) + phase_text("prefill", forecast.prefill);
  text += experts_text(forecast);
  text += fmt::format("  memory   {}: experts {}, cache {}, everything else {}\n",
                      decimal_bytes(memory.needed()), decimal_bytes(memory.experts_bytes),
                      decimal_bytes(memory.cache_bytes), decimal_bytes(memory.other_bytes));
  text += fmt::format("  load     {:.1f} s to read the weights once\n", forecast.load_seconds);
  const std::string room = memory.fits()
                               ? fmt::format("yes, {} free", decimal_bytes(memory.free()))
                               : fmt::format("no, {} missing", decimal_bytes(-memory.free()));
  text += fmt::format("fits in {}: {} at context {}", decimal_bytes(memory.budget_bytes), room,
                      forecast.context);
  // Without enough memory, the system swaps, which the forecast does not cover.
  if (!memory.fits()) return text + "\n";
  return text +
         fmt::format("; about {} tokens/s\n", rate_text(forecast.decode.tokens_per_second()));
}

namespace {

nlohmann::ordered_json to_json(const PhaseForecast& phase) {
  return {{"width", phase.width},
          {"used", phase.used},
          {"tokens_per_second", phase.tokens_per_second()},
          {"seconds_per_token", phase.seconds()},
          {"products_seconds", phase.work.products},
          {"attention_seconds", phase.work.attention},
          {"elements_seconds", phase.work.elements},
          {"ops_seconds", phase.work.ops},
          {"read_seconds", phase.read_seconds},
          {"miss_rate", phase.miss_rate}};
}

}  // namespace

nlohmann::ordered_json forecast_json(const Forecast& forecast) {
  const ForecastMemory& memory = forecast.memory;
  return {{"machine", forecast.machine},
          {"filled", forecast.filled},
          {"context", forecast.context},
          {"decode", to_json(forecast.decode)},
          {"prefill", to_json(forecast.prefill)},
          {"experts", forecast.experts},
          {"capacity", forecast.capacity},
          {"largest_capacity", forecast.largest_capacity},
          {"from_trace", forecast.from_trace},
          {"memory",
           {{"budget_bytes", memory.budget_bytes},
            {"needed_bytes", memory.needed()},
            {"expert_bytes", memory.experts_bytes},
            {"cache_bytes", memory.cache_bytes},
            {"other_bytes", memory.other_bytes},
            {"fits", memory.fits()}}},
          {"load_seconds", forecast.load_seconds}};
}

}  // namespace moec
