#include "frontends/compile/calibrated_inputs.h"

#include <fmt/format.h>

#include <map>

#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/encode/calibrated_encoder.h"
#include "frontends/compile/weight_values.h"
#include "frontends/sources/open_source.h"
#include "ir/analysis/find_experts.h"
#include "models/shards/weight_uses.h"
#include "models/shards/width_slices.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> no_use(std::string cause, std::string next) {
  return fail("calibrate.no_use", std::move(cause), std::move(next));
}

// Quantized weights of a shard, keyed by the text of their view.
std::map<std::string, RoleTensor> encoded_matrices(const Plan& plan, size_t index,
                                                   const CompiledShard& compiled) {
  const std::map<std::string, WeightUse> uses = weight_uses(plan, index);
  const size_t layers = moe_layers_of(plan.model, plan.shards[index]).size();
  std::map<std::string, RoleTensor> matrices;
  // Token widths share their weights, so later widths repeat the entries of the first width.
  for (const Shard& shard : compiled.widths) {
    const IdMap<OpId, OpRole> roles = find_experts(shard, plan.model.moe.experts, layers);
    for (OpId id : op_ids(shard)) {
      const auto* weight = std::get_if<Weight>(&shard.ops[id].data);
      // Plain weights have no codes, and copied codes must stay those of the checkpoint.
      if (!weight || is_plain(weight->encoding) || is_copied(weight->encoding)) continue;
      const auto use = uses.find(first_tensor(weight->view));
      if (use == uses.end()) continue;
      // If one tensor contains all experts, all slices have its name, and only the graph identifies
      // the expert.
      const WeightShare& share = roles[id].share;
      RoleTensor& matrix = matrices[to_string(weight->view)] = use->second.tensor;
      if (matrix.expert < 0 && share.role == WeightRole::expert) matrix.expert = share.first;
    }
  }
  return matrices;
}

// Returns the range of the matrix's `all` inputs that the shard's weight with `size` inputs uses:
// the shard's MLP slice if the slice has that size, otherwise all inputs. The encoder refuses a
// mismatch.
InputRange inputs_in_shard(const ShardDecl& decl, int64_t all, int64_t size) {
  if (size == all || decl.slices == 1) return {0, all};
  const auto [begin, sliced] = slice_of(decl, all);
  return sliced == size ? InputRange{begin, size} : InputRange{0, all};
}

// Splits a range into `parts` ranges whose sizes differ by at most one.
std::vector<InputRange> in_parts(const InputRange& range, int64_t parts) {
  std::vector<InputRange> ranges;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = range.size * i / parts, end = range.size * (i + 1) / parts;
    ranges.push_back({range.begin + begin, end - begin});
  }
  return ranges;
}

// Finds the error metrics of one shard's weights. Caches the last metrics, because matrices with
// the same inputs are encoded consecutively, and factoring takes as long as encoding.
class ShardInputs {
 public:
  ShardInputs(const CalibrationStats& stats, const ShardDecl& decl,
              std::map<std::string, RoleTensor> matrices, const EncoderLimit& limit)
      : stats_(stats), decl_(decl), matrices_(std::move(matrices)), limit_(limit) {}

  Result<InputMetrics> find(const Weight& weight, const Type& type) {
    const auto found = matrices_.find(to_string(weight.view));
    if (found == matrices_.end()) return nullptr;
    const CalibratedInput* inputs = stats_.inputs_of(found->second);
    if (!inputs) return nullptr;
    const InputRange range = inputs_in_shard(decl_, inputs->inputs, type.dims.at(1));
    const std::vector<InputRange> ranges =
        in_parts(range, input_blocks(weight.encoding, type, limit_));
    const MetricParts parts = metric_parts(weight.encoding);
    if (inputs == inputs_ && ranges == ranges_ && has(parts)) return last_;
    // Metrics grow with the square of the inputs, so two of them might exceed the limit.
    last_.reset();  // frees memory before the next metrics are allocated
    MOEC_ASSIGN(std::vector<Hessian> hessians, stats_.find(found->second, ranges));
    last_ =
        std::make_shared<const std::vector<ErrorMetric>>(make_metrics(std::move(hessians), parts));
    inputs_ = inputs;
    ranges_ = ranges;
    return last_;
  }

 private:
  // Encoders that fit tables need the Hessian in addition to its factor, so they cannot reuse
  // metrics without the Hessian.
  bool has(MetricParts parts) const {
    return last_ && (parts == MetricParts::factor || !last_->front().hessian.empty());
  }

  const CalibrationStats& stats_;
  const ShardDecl& decl_;
  std::map<std::string, RoleTensor> matrices_;
  EncoderLimit limit_;
  const CalibratedInput* inputs_ = nullptr;  // key of last_, with ranges_
  std::vector<InputRange> ranges_;
  InputMetrics last_;
};

}  // namespace

Result<std::shared_ptr<const CalibrationStats>> open_calibration(const std::string& folder,
                                                                 const Plan& plan,
                                                                 const PassOptions& passes,
                                                                 const std::string& source) {
  if (folder.empty()) return nullptr;
  if (plan.build.weights.all_float())
    return no_use(
        "--calibration applies to quantized weights, but all weights are exported as floats",
        "pass --weights, or omit --calibration");
  if (plan.weight_seed)
    return no_use(
        "--calibration needs the checkpoint's weights, but --seeded-weights replaces them",
        "omit --seeded-weights or --calibration");
  const bool fuses = passes.routing == RoutingForm::op;
  if (fuses || passes.experts == ExpertForm::bank) {
    const char* form = fuses ? "--routing op" : "--experts bank";
    return no_use(fmt::format("{} combines experts with different inputs in one weight, which "
                              "--calibration does not support",
                              form),
                  fmt::format("omit {} or --calibration", form));
  }
  MOEC_ASSIGN(CalibrationStats stats, CalibrationStats::open(folder));
  MOEC_ASSIGN(const std::string config, source_config_text(source));
  // Moments of another checkpoint may have the same shapes. Only the identity of the checkpoint
  // distinguishes them.
  MOEC_ASSIGN(const std::string identity, checkpoint_identity(config, plan.weights));
  MOEC_TRY(stats.check_checkpoint(identity));
  return std::make_shared<const CalibrationStats>(std::move(stats));
}

decltype(EmitOptions::inputs_of) inputs_of_shard(const CalibrationStats& stats, const Plan& plan,
                                                 size_t index, const CompiledShard& compiled,
                                                 const EncoderLimit& limit) {
  // std::function copies its target. The shared pointer lets all copies use the same cached
  // metrics.
  return [inputs = std::make_shared<ShardInputs>(stats, plan.shards[index],
                                                 encoded_matrices(plan, index, compiled), limit)](
             const Weight& weight, const Type& type) { return inputs->find(weight, type); };
}

EncoderLimit encoder_limit(const CompileOptions& compile, const ExportResources& resources,
                           size_t targets) {
  constexpr uint64_t kBeside = uint64_t{64} << 20;
  EncoderLimit limit;
  const uint64_t share = resources.memory_bytes / targets;
  // The minimum prevents an unsigned wrap-around when the share is smaller than the reserve.
  limit.bytes = share - std::min(share, kBeside);
  if (compile.calibration_inputs > 0) limit.inputs = compile.calibration_inputs;
  return limit;
}

void EncoderMemory::take(const Shard& placed) {
  for (OpId id : op_ids(placed)) {
    const auto* weight = std::get_if<Weight>(&placed.ops[id].data);
    if (!weight || is_plain(weight->encoding) || is_copied(weight->encoding)) continue;
    const Type& type = placed.type(placed.ops[id].results[0]);
    const int64_t parts = input_blocks(weight->encoding, type, limit);
    if (parts > 1) in_blocks[placed.name].insert(fmt::format("{} in {}", type.dims.at(1), parts));
    const auto needed = static_cast<uint64_t>(calibrated_bytes(weight->encoding, type, parts));
    // A job encodes one weight at a time, so only the weight that needs the most memory counts.
    if (needed <= bytes) continue;
    bytes = needed;
    inputs = type.dims.at(1);
    blocks = parts;
    what =
        fmt::format("{} {} of shard {}", to_string(type), first_tensor(weight->view), placed.name);
  }
}

Diagnostics note_blocks(const EncoderMemory& memory) {
  if (memory.in_blocks.empty()) return {};
  std::vector<std::string> shards;
  std::set<std::string> sizes;
  for (const auto& [shard, its] : memory.in_blocks) {
    shards.push_back(shard);
    sizes.insert(its.begin(), its.end());
  }
  return {{Severity::note,
           "calibrate.blocks",
           fmt::format("input moments are split into blocks, and errors are not compensated across "
                       "blocks ({}), in {} shards: {}",
                       fmt::join(sizes, ", "), shards.size(), fmt::join(shards, ", ")),
           "for fewer blocks, pass a larger --memory (costs: backends/weights/encode/README.md)",
           {}}};
}

}  // namespace moec
