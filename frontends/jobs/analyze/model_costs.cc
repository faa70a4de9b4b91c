#include "frontends/jobs/analyze/model_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/out_folder.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/measure/measurement.h"
#include "frontends/sources/open_source.h"
#include "ir/analysis/cost.h"
#include "ir/base/json_fields.h"
#include "ir/base/median.h"
#include "ir/base/regular_file.h"
#include "ir/base/seconds_since.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "models/shards/count_parameters.h"

namespace moec {

namespace {

// Deterministic ids, so that repeated runs compute the same step. The modulo keeps them inside a
// small vocabulary.
std::vector<int64_t> first_tokens(int64_t count, int64_t vocab) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = i % vocab;
  return tokens;
}

Result<StepTime> time_width(Session& session, int64_t width, int64_t runs,
                            const std::function<Status()>& stop) {
  const std::vector<int64_t> tokens = first_tokens(width, session.manifest().model.vocab);
  std::vector<double> seconds;
  for (int64_t run = 0; run <= runs; ++run) {
    MOEC_TRY(stop());
    // Resets the caches, so that each run starts at position 0 and computes the same step.
    session.reset();
    const Clock::time_point begin = Clock::now();
    MOEC_TRY(session.pass(tokens, 0));
    // Run 0 is the warm-up, which loads shards and fills caches of the processor.
    if (run > 0) seconds.push_back(seconds_since(begin));
  }
  return StepTime{width, median(std::move(seconds))};
}

}  // namespace

Result<std::vector<StepTime>> time_steps(Session& session, int64_t runs,
                                         const std::function<Status()>& stop) {
  // The manifest lists token widths in ascending order.
  const std::vector<int64_t>& widths = session.manifest().build.tokens;
  std::vector<StepTime> times;
  for (const int64_t width : {widths.front(), widths.back()}) {
    if (!times.empty() && times.back().tokens == width) break;
    MOEC_ASSIGN(StepTime time, time_width(session, width, runs, stop));
    times.push_back(time);
  }
  // Leaves no tokens of the last step in the caches of the caller's session.
  session.reset();
  return times;
}

namespace {

// The lower bound of the source, which gives 1.3 to 2.6 nJ per 64 bits.
constexpr double kDramPicojoules = 1300.0 / 8;  // per byte
// A multiplication and an addition, in picojoules, from the same source.
constexpr double kMacF32 = 3.7 + 0.9, kMacF16 = 1.1 + 0.4;
constexpr double kPicojoule = 1e-12;

}  // namespace

EnergyPrices horowitz_prices(DType multiplied) {
  const bool wide = multiplied == DType::f32;
  return {kDramPicojoules, wide ? kMacF32 : kMacF16,
          fmt::format("Horowitz, ISSCC 2014, 45 nm: DRAM 1.3 nJ for 64 bits, multiply and add in "
                      "{}",
                      wide ? "f32" : "f16")};
}

double energy_of(int64_t bytes, int64_t macs, const EnergyPrices& prices) {
  return kPicojoule * (static_cast<double>(bytes) * prices.per_byte +
                       static_cast<double>(macs) * prices.per_mac);
}

namespace {

// ---- Costs of an export
// ------------------------------------------------------------------------------

// The limits are high, because a report has several values per pass and shard.
constexpr JsonLimits kReportLimits{.bytes = size_t{1} << 28, .values = size_t{1} << 25};

Result<std::optional<int64_t>> count_in(const JsonValue& report, const JsonReport& file,
                                        std::string_view name) {
  const JsonValue* counts = report.find("parameters");
  if (counts == nullptr) return std::nullopt;
  const JsonValue* count = counts->find(name);
  if (count == nullptr || count->integer() == nullptr || *count->integer() < 0)
    return file.fail_at(*counts, file.codes().bad_value,
                        fmt::format("\"parameters\" lacks the number \"{}\"", name));
  return *count->integer();
}

// Reads the parameter counts from report.json. They cannot be computed from the files, because each
// shard has a copy of shared weights.
Status read_parameters(const std::string& folder, ModelCosts& costs) {
  const std::string path = folder + "/" + kReportFile;
  const auto text = read_text_file(path, kReportLimits.bytes);
  // The report is optional: without it, the rows about parameters are empty.
  if (!text) return {};
  const JsonReport file(*text, path, JsonCodes::all_as("analyze.report", "export the model again"));
  MOEC_ASSIGN(const JsonValue report, file.parse(kReportLimits));
  MOEC_ASSIGN(costs.parameters, count_in(report, file, "all"));
  MOEC_ASSIGN(costs.active, count_in(report, file, "active"));
  return {};
}

int64_t cache_bytes_of(const manifest::Cache& cache) {
  // Keys and values per row of the context; models with recurrent layers have a history and a
  // state, too.
  const int64_t rows = cache.rows * cache.kv_heads * (cache.head_dim + cache.value_dim);
  const int64_t history = cache.history_tokens * cache.history_channels;
  return (rows + history + static_cast<int64_t>(state_elements(cache))) * dtype_bytes(cache.dtype);
}

// Returns the bytes of expert weights in the files, including weights that passes add.
int64_t expert_bytes_of(const manifest::Shard& shard) {
  int64_t bytes = 0;
  for (const WeightRecord& weight : shard.weights)
    if (weight.role == WeightRole::expert)
      for (const WeightRange& range : weight.ranges) bytes += range.bytes;
  return bytes;
}

void add_shard(const manifest::Shard& shard, const ExpertGrid& grid, ModelCosts& costs) {
  const int64_t experts = expert_bytes_of(shard);
  costs.weight_bytes += shard.weight_bytes;
  costs.all.bytes += shard.weight_bytes;
  costs.all.macs += shard.cost.macs_dense;
  costs.chosen.bytes += shard.weight_bytes - experts;
  // Adds the mean over all experts, because the picked experts vary by token. The product comes
  // first: bytes per expert may have a fraction. `grid.experts` may be 0 without experts.
  if (experts > 0) costs.chosen.bytes += experts * grid.top_k / grid.experts;
  costs.chosen.macs += shard.cost.macs_active;
}

void add_manifest(const Manifest& manifest, ModelCosts& costs) {
  costs.model = manifest.model.family;
  costs.multiplied = manifest.build.dtype;
  costs.context = manifest.build.context;
  // A token reads one row of the embedding, which is a table outside of the shards.
  const int64_t row = manifest.embedding.columns * dtype_bytes(manifest.embedding.dtype);
  // Assigns, instead of adds: add_shard() then adds the shards to this base.
  costs.all.bytes = costs.chosen.bytes = row;
  costs.weight_bytes = manifest.embedding.file.bytes;
  if (manifest.rope) costs.weight_bytes += manifest.rope->table.file.bytes;
  const ExpertGrid grid = expert_grid(manifest);
  for (const manifest::Shard& shard : manifest.shards) add_shard(shard, grid, costs);
  costs.cache_bytes = 0;
  for (const manifest::Cache& cache : manifest.caches) *costs.cache_bytes += cache_bytes_of(cache);
}

Result<ModelCosts> costs_of_export(const AnalyzeOptions& options) {
  MOEC_ASSIGN(const Manifest manifest, read_manifest(options.source));
  if (!manifest.has_graphs())
    return fail("analyze.no_graphs", "the folder has weights but no graphs",
                "pass the .gguf file itself, or an export with graphs", {.file = options.source});
  ModelCosts costs{.source = options.source, .exported = true};
  add_manifest(manifest, costs);
  MOEC_TRY(read_parameters(options.source, costs));
  MOEC_ASSIGN(Session session, Session::open(options.source, read_shard, options.session));
  MOEC_ASSIGN(costs.steps,
              time_steps(session, options.table->runs, [&] { return check_not_stopped(options); }));
  // The reserve is measured, so it must be read after the steps ran.
  costs.value_bytes = static_cast<int64_t>(session.loaded().reserve());
  return costs;
}

// ---- Costs of a checkpoint
// ---------------------------------------------------------------------------

// Returns f32 if most bytes of the checkpoint are f32, and f16 otherwise, because bf16 and
// quantized weights are multiplied in half precision.
DType stored_type(const ParameterCounts& counts) {
  const auto most =
      std::max_element(counts.bytes_by_dtype.begin(), counts.bytes_by_dtype.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.bytes_by_dtype.end() || most->first == "f32" ? DType::f32 : DType::f16;
}

Status count_macs(Checkpoint checkpoint, int64_t context, ModelCosts& costs) {
  BuildOptions build;
  build.context = context;
  MOEC_ASSIGN(const Plan plan, plan_model(std::move(checkpoint.config),
                                          std::move(checkpoint.weights), std::move(build)));
  const MoeConfig& moe = plan.model.moe;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    // One token per step, so that the MACs of the shard are MACs per token.
    MOEC_ASSIGN(const Shard shard, build_shard(plan, i, 1));
    // At least 1, because a dense model has no top-k and no experts to divide by.
    const ShardCost cost = count_cost(shard, std::max<int64_t>(moe.routing.top_k, 1),
                                      std::max<int64_t>(moe.experts, 1));
    costs.all.macs += cost.macs_dense;
    costs.chosen.macs += cost.macs_active;
  }
  return {};
}

Result<ModelCosts> costs_of_checkpoint(const AnalyzeOptions& options) {
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(options.source, options.family, equal_tensors));
  const ParameterCounts counts = count_parameters(checkpoint.config, checkpoint.weights);
  ModelCosts costs{.source = options.source, .model = checkpoint.config.family};
  costs.multiplied = stored_type(counts);
  costs.parameters = counts.parameters;
  costs.active = counts.active;
  costs.weight_bytes = counts.bytes();
  costs.context = std::min(options.text.window, checkpoint.config.max_positions);
  costs.chosen.bytes = counts.active_bytes;
  costs.all.bytes = counts.all_experts_bytes;
  // Moves the checkpoint last, because the counts above read it.
  MOEC_TRY(count_macs(std::move(checkpoint), costs.context, costs));
  return costs;
}

}  // namespace

Result<ModelCosts> costs_of_model(const AnalyzeOptions& options) {
  return options.exported ? costs_of_export(options) : costs_of_checkpoint(options);
}

}  // namespace moec
