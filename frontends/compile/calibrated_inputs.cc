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

// A matrix as CalibrationStats knows it.
struct Matrix {
  int64_t layer = -1;
  std::string role;
  int64_t expert = -1;
};

// The encoded weights of a shard by the text of their view.
std::map<std::string, Matrix> encoded_matrices(const Plan& plan, size_t index,
                                               const CompiledShard& compiled) {
  const std::map<std::string, WeightUse> uses = weight_uses(plan, index);
  const size_t layers = moe_layers_of(plan.model, plan.shards[index]).size();
  std::map<std::string, Matrix> matrices;
  for (const Shard& shard : compiled.widths) {
    const IdMap<OpId, OpRole> roles = find_experts(shard, plan.model.moe.experts, layers);
    for (OpId id : op_ids(shard)) {
      const auto* weight = std::get_if<Weight>(&shard.ops[id].data);
      if (!weight || is_plain(weight->encoding) || is_copied(weight->encoding)) continue;
      const auto use = uses.find(first_tensor(weight->view));
      if (use == uses.end()) continue;
      // A tensor that holds all experts is sliced; the graph tells which one.
      const WeightShare& share = roles[id].share;
      const bool sliced = use->second.expert < 0 && share.role == WeightRole::expert;
      matrices[to_string(weight->view)] = {use->second.layer, use->second.role,
                                           sliced ? share.first : use->second.expert};
    }
  }
  return matrices;
}

// Which of the inputs of a matrix the shard's weight with `size` of them has: those of a slice of
// an MLP where they are as many, else all, of which the encoder refuses any other number.
InputRange inputs_in_shard(const ShardDecl& decl, int64_t all, int64_t size) {
  if (size == all || decl.slices == 1) return {0, all};
  const auto [begin, sliced] = slice_of(decl, all);
  return sliced == size ? InputRange{begin, size} : InputRange{0, all};
}

// A range in so many parts of about equal size.
std::vector<InputRange> in_parts(const InputRange& range, int64_t parts) {
  std::vector<InputRange> ranges;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = range.size * i / parts, end = range.size * (i + 1) / parts;
    ranges.push_back({range.begin + begin, end - begin});
  }
  return ranges;
}

// The inputs of the weights of one shard. Matrices that share their inputs are encoded one after
// the other, so the last metric is kept: factoring takes as long as encoding.
class ShardInputs {
 public:
  ShardInputs(const CalibrationStats& stats, const ShardDecl& decl,
              std::map<std::string, Matrix> matrices, const EncoderLimit& limit)
      : stats_(stats), decl_(decl), matrices_(std::move(matrices)), limit_(limit) {}

  Result<InputMetrics> find(const Weight& weight, const Type& type) {
    const auto found = matrices_.find(to_string(weight.view));
    if (found == matrices_.end()) return nullptr;
    const auto& [layer, role, expert] = found->second;
    const CalibratedInput* inputs = stats_.inputs_of(layer, role, expert);
    if (!inputs) return nullptr;
    const InputRange range = inputs_in_shard(decl_, inputs->inputs, type.dims.at(1));
    const std::vector<InputRange> ranges =
        in_parts(range, input_blocks(weight.encoding, type, limit_));
    const MetricParts parts = metric_parts(weight.encoding);
    if (inputs == inputs_ && ranges == ranges_ && has(parts)) return last_;
    last_.reset();  // before the next ones take memory
    MOEC_ASSIGN(std::vector<Hessian> hessians, stats_.find(layer, role, expert, ranges));
    last_ =
        std::make_shared<const std::vector<ErrorMetric>>(make_metrics(std::move(hessians), parts));
    inputs_ = inputs;
    ranges_ = ranges;
    return last_;
  }

 private:
  bool has(MetricParts parts) const {
    return last_ && (parts == MetricParts::factor || !last_->front().hessian.empty());
  }

  const CalibrationStats& stats_;
  const ShardDecl& decl_;
  std::map<std::string, Matrix> matrices_;
  EncoderLimit limit_;
  const CalibratedInput* inputs_ = nullptr;  // of the last metrics, and the ranges of them
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
    return no_use("a calibration chooses codes, but all weights are exported as floats",
                  "give --weights, or leave out --calibration");
  if (plan.weight_seed)
    return no_use("a calibration is of a checkpoint, but the weights are random",
                  "leave out --seeded-weights or --calibration");
  if (passes.experts == ExpertForm::bank)
    return no_use("each row of a bank of experts has the inputs of its own expert",
                  "leave out --experts bank or --calibration");
  MOEC_ASSIGN(CalibrationStats stats, CalibrationStats::open(folder));
  MOEC_ASSIGN(const std::string config, source_config_text(source));
  MOEC_ASSIGN(const std::string identity, checkpoint_identity(config, plan.weights));
  MOEC_TRY(stats.check_checkpoint(identity));
  return std::make_shared<const CalibrationStats>(std::move(stats));
}

decltype(EmitOptions::inputs_of) inputs_of_shard(const CalibrationStats& stats, const Plan& plan,
                                                 size_t index, const CompiledShard& compiled,
                                                 const EncoderLimit& limit) {
  return [inputs = std::make_shared<ShardInputs>(stats, plan.shards[index],
                                                 encoded_matrices(plan, index, compiled), limit)](
             const Weight& weight, const Type& type) { return inputs->find(weight, type); };
}

EncoderLimit encoder_limit(const CompileOptions& compile, const ExportResources& resources,
                           size_t targets) {
  constexpr uint64_t kBeside = uint64_t{64} << 20;
  EncoderLimit limit;
  const uint64_t share = resources.memory_bytes / targets;
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
           fmt::format("moments of inputs are taken in blocks, which do not make up for one "
                       "another's errors ({}), in {} shards: {}",
                       fmt::join(sizes, ", "), shards.size(), fmt::join(shards, ", ")),
           "give more --memory for fewer blocks; backends/weights/encode/README.md says what they "
           "cost",
           {}}};
}

}  // namespace moec
