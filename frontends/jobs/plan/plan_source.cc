#include "frontends/jobs/plan/plan_source.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/formats/format.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/compile/ane_book_form.h"
#include "frontends/compile/auto_bits.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/compile/cuts_json.h"
#include "frontends/compile/describe_export.h"
#include "frontends/compile/pipeline_form.h"
#include "frontends/sources/open_source.h"
#include "ir/base/name_file.h"
#include "ir/base/report_json.h"
#include "models/plan/check_budgets.h"
#include "models/plan/weight_sizes.h"
#include "models/published/published.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/rope.h"
#include "models/tensors/stored_view.h"

namespace moec {

// Returns the errors and adds the warnings of an export for another runtime.
static Status check_compat(const PlanSourceOptions& options, const Plan& plan, Diagnostics& notes) {
  if (options.genai_pipeline)
    return check_pipeline(plan, describe_plan(plan, options.passes, {}).build,
                          options.passes.target.engine.decoder_graph);
  if (!options.ane_book) return {};
  MOEC_TRY(check_ane_book(plan, describe_plan(plan, options.passes, {}).build,
                          options.ane_book->one_package_a_shard));
  note_fixed_in_book(plan, notes);
  return {};
}

// Does not check a config without weight files, because it may belong to any checkpoint.
static Status check_calibration(const PlanSourceOptions& options, const WeightTable& weights) {
  const bool has_choice =
      options.request.build.weights.chooses_bits() && !options.calibration.empty();
  if (!has_choice || weights.files.front().path.empty()) return {};
  MOEC_ASSIGN(const CalibrationStats stats, CalibrationStats::open(options.calibration));
  MOEC_ASSIGN(const std::string config, source_config_text(options.source));
  MOEC_ASSIGN(const std::string identity, checkpoint_identity(config, weights));
  return stats.check_checkpoint(identity);
}

// Returns f32 if most floats are f32, and f16 otherwise. f16 also covers bf16, which has the same
// size.
static DType stored_dtype(const WeightTable& weights) {
  int64_t wide = 0, narrow = 0;
  for (const auto& [name, range] : weights.tensors) {
    // Weighs narrow bytes twice, because an f16 element has half the bytes of an f32 one.
    const bool is_wide = range.type.dtype == DType::f32;
    (is_wide ? wide : narrow) += is_wide ? range.type.bytes() : 2 * range.type.bytes();
  }
  return wide > narrow ? DType::f32 : DType::f16;
}

// True if most bytes are quantized weights, or if there are no files. In GGUF files, rows that do
// not consist of whole blocks stay floats; bitsandbytes leaves fused experts as floats.
static bool is_mostly_codes(const WeightTable& weights) {
  int64_t codes = 0, floats = 0;
  for (const auto& [name, range] : weights.tensors)
    // f8_e4m3 is a float type, but such weights are stored codes with scales.
    (is_float(range.type.dtype) && range.type.dtype != DType::f8_e4m3 ? floats : codes) +=
        range.type.bytes();
  return codes > floats || codes == 0;
}

// Counts weights as the checkpoint stores them. Switches projections to matmuls for quantized
// weights, because convolutions do not support partial blocks.
static void count_as_stored(const Checkpoint& checkpoint, PlanSourceOptions& options) {
  constexpr std::array kCoded = {WeightGroup::experts, WeightGroup::attn, WeightGroup::mlp,
                                 WeightGroup::shared, WeightGroup::head};
  BuildOptions& build = options.request.build;
  build.dtype = stored_dtype(checkpoint.weights);
  build.weights.rules.clear();
  const StoredWeights& stored = checkpoint.config.stored;
  const bool may_be_floats =
      stored.coding == WeightCoding::gguf_blocks || is_of_bitsandbytes(stored.coding);
  if (may_be_floats && !is_mostly_codes(checkpoint.weights)) return;
  for (const WeightGroup group : kCoded) {
    const WeightForm form = stored_form(stored, group);
    if (is_float(form)) continue;
    build.weights.rules.push_back({group, std::nullopt, form});
    options.passes.target.projection = ProjectionForm::matmul;
  }
}

// Compiles shards of the plan for single token widths.
static CompileWidth compile_width(const Plan& plan, const PlanSourceOptions& options) {
  return [&](size_t index, int64_t tokens) -> Result<Shard> {
    Plan narrowed = plan;
    narrowed.build.tokens = {tokens};
    Shard compiled;
    MOEC_TRY(compiled_size(narrowed, index, options.passes, options.run,
                           [&](const Shard& placed) { compiled = placed; }));
    return compiled;
  };
}

Result<PlannedSource> plan_source(PlanSourceOptions options) {
  const std::string& source = options.source;
  PlanRequest& request = options.request;
  MOEC_TRY(require_graphs(format_of(options.passes.target.format), source));
  MOEC_ASSIGN(Checkpoint checkpoint, open_for_plan(source, options.family, equal_tensors));
  // Must precede choose_forms(), which chooses bits from the calibration.
  MOEC_TRY(check_calibration(options, checkpoint.weights));
  if (options.own_types) count_as_stored(checkpoint, options);
  // Must precede make_plan(), which reads the forms from the request.
  MOEC_TRY(choose_forms(options.passes.target, options.calibration, request.build.weights));
  PlannedSource planned;
  planned.source = source;
  planned.target = options.passes.target.name;
  // Moved separately, because make_plan() consumes only the config and the weights.
  planned.notes = std::move(checkpoint.warnings);
  if (const std::string& why = checkpoint.plan_only; !why.empty())
    planned.notes.push_back({Severity::note,
                             "hf.family.plan_only",
                             fmt::format("moec export refuses this model: {}", why),
                             {},
                             {}});
  MOEC_ASSIGN(planned.made,
              naming_file(make_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                    options.passes.target, request),
                          source));
  const Diagnostics& chosen = planned.made.notes;
  planned.notes.insert(planned.notes.end(), chosen.begin(), chosen.end());
  const Plan& plan = planned.made.plan;
  MOEC_TRY(check_compat(options, plan, planned.notes));
  MOEC_ASSIGN(planned.measured,
              measure_plan(plan, request.cuts, std::move(options.devices), [&](size_t index) {
                return compiled_size(plan, index, options.passes, options.run);
              }));
  // Runs after measure_plan(), because budgets limit compiled sizes.
  planned.findings = check_budgets(planned.measured.report, request.cuts);
  if (options.resident_bytes)
    planned.resident = resident_set(plan, planned.measured.report, *options.resident_bytes);
  if (options.forecast) {
    options.forecast->budget_bytes = options.resident_bytes;
    MOEC_ASSIGN(planned.forecast, forecast_plan(plan, planned.measured, *options.forecast,
                                                compile_width(plan, options)));
  }
  return planned;
}

Result<std::vector<PublishedSize>> published_sizes() {
  std::vector<PublishedSize> sizes;
  for (const PublishedModel& model : published_models()) {
    MOEC_ASSIGN(const Checkpoint opened, open_for_plan(model.name, {}, equal_tensors));
    sizes.push_back({model.name, model.checkpoint, parameter_count(opened.config), model.from});
  }
  return sizes;
}

namespace {

using nlohmann::ordered_json;

ordered_json to_json(const ResidentSet& set) {
  return {{"budget_bytes", set.budget_bytes}, {"base_bytes", set.base_bytes},
          {"slot_bytes", set.slot_bytes},     {"layers", set.layers},
          {"experts", set.experts},           {"capacity", resident_capacity(set)}};
}

ordered_json to_json(const TokenCost& cost) { return {{"bytes", cost.bytes}, {"macs", cost.macs}}; }

ordered_json kinds_json(const PlanReport& report) {
  auto list = ordered_json::array();
  for (const KindReport& kind : report.kinds)
    list.push_back({{"kind", enum_name(kind.kind)},
                    {"shards", kind.shards},
                    {"largest_bytes", kind.largest_bytes},
                    {"total_bytes", kind.total_bytes},
                    {"budget_bytes", kind.budget_bytes},
                    {"within_budget", kind.within_budget()},
                    {"peak_activation_bytes", kind.peak_activation_bytes},
                    {"resident_bytes", kind.resident_bytes}});
  return list;
}

ordered_json memory_json(const PlanReport& report) {
  return {{"trunk_bytes", report.trunk_bytes},         {"expert_bytes", report.expert_total_bytes},
          {"embedding_bytes", report.embedding_bytes}, {"rope_bytes", report.rope_bytes},
          {"head_bytes", report.head_bytes},           {"kv_cache_bytes", report.cache_bytes},
          {"total_bytes", report.total_bytes()}};
}

ordered_json devices_json(const DevicePlan& plan) {
  auto list = ordered_json::array();
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const DeviceLoad& load = plan.loads[d];
    auto shards = ordered_json::array();
    for (const size_t unit : load.units) shards.push_back(plan.units[unit].name);
    list.push_back({{"name", plan.devices[d].name},
                    {"bytes", plan.devices[d].bytes},
                    {"used_bytes", load.bytes},
                    {"peak_activation_bytes", load.peak_bytes},
                    {"token_bytes", load.token_bytes},
                    {"shards", shards}});
  }
  return list;
}

ordered_json replicas_json(const ReplicaPlan& plan) {
  auto layers = ordered_json::array();
  for (const LayerReplicas& layer : plan.layers)
    layers.push_back({{"layer", layer.layer},
                      {"group_of_slot", layer.balance.expert_of},
                      {"imbalance", layer.imbalance}});
  return {{"groups", plan.groups},
          {"replicas", plan.replicas},
          {"worst_imbalance", plan.worst_imbalance()},
          {"layers", layers}};
}

}  // namespace

ordered_json plan_json(const PlannedSource& planned) {
  const PlanReport& report = planned.measured.report;
  const BuildOptions& build = planned.made.plan.build;
  ordered_json json = {{"source", planned.source},
                       {"family", planned.made.plan.model.family},
                       {"parameters", report.parameters},
                       {"target", planned.target},
                       {"dtype", dtype_name(build.dtype)},
                       {"weights", to_string(build.weights)},
                       {"stored_as", enum_name(planned.made.plan.model.stored.coding)},
                       {"tokens", build.tokens},
                       {"context", build.context},
                       {"shards", kinds_json(report)},
                       {"cuts", cuts_json(planned.made.cuts)},
                       {"layers_per_shard", build.layers_per_shard},
                       {"expert_groups", report.groups},
                       {"expert_slices", build.slices.expert},
                       {"shared_slices", build.slices.shared},
                       {"mlp_slices", build.slices.mlp},
                       {"expert_bytes", report.expert_bytes},
                       {"token",
                        {{"dense_static", to_json(report.dense)},
                         {"host_routed", to_json(report.host_routed)},
                         {"ideal_sparse", to_json(report.sparse)}}},
                       {"memory", memory_json(report)}};
  // Several rotations may occur, one per kind of attention; the last longrope rotation is reported.
  for (const RopeConfig& rope : planned.made.plan.model.rotations())
    if (rope.scaling == RopeScaling::longrope)
      json["rope_factors"] = has_long_factors(rope, build.context) ? "long" : "short";
  if (planned.resident) json["resident"] = to_json(*planned.resident);
  if (planned.forecast) json["forecast"] = forecast_json(*planned.forecast);
  if (planned.calibration_bytes) json["calibration_bytes"] = *planned.calibration_bytes;
  const std::optional<DevicePlan>& devices = planned.measured.devices;
  if (devices) json["devices"] = devices_json(*devices);
  if (devices && devices->replicas) json["replicas"] = replicas_json(*devices->replicas);
  // Findings follow the notes; an error among them sets "ok" to false.
  Diagnostics all = planned.notes;
  all.insert(all.end(), planned.findings.begin(), planned.findings.end());
  return report_json(!has_error(all), json, all);
}

ordered_json published_json(const std::vector<PublishedSize>& models) {
  auto list = ordered_json::array();
  for (const PublishedSize& model : models)
    list.push_back({{"name", model.name},
                    {"checkpoint", model.checkpoint},
                    {"parameters", model.parameters},
                    {"config", model.from.empty() ? "release" : model.from}});
  return report_json(true, {{"models", list}});
}

}  // namespace moec
