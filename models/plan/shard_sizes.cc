#include "models/plan/shard_sizes.h"

#include <algorithm>

#include "ir/analysis/cost.h"
#include "ir/base/at.h"
#include "ir/experts/expert_runs.h"
#include "ir/graph/port_names.h"
#include "models/plan/mlp_elements.h"
#include "models/shards/build_shard.h"
#include "models/shards/feed_forward_sum.h"
#include "models/shards/layer_ports.h"
#include "models/shards/width_slices.h"

namespace moec {
namespace {

// All facts that determine a shard's size.
struct ShardShape {
  ShardKind kind = ShardKind::attention;
  std::vector<LayerConfig> layers;
  int64_t experts = 0, vocab = 0;
  int64_t slice_width = 0;
  bool first_part = false;          // may contain the shared expert and the residual's affine terms
  bool starts_stream = false;       // computes the residual stream from the embedding
  bool gives_router_state = false;  // outputs its state for the next layer's router
  bool ends_layer = false;          // applies the norms after the layer's sums
  std::vector<ExpertRun> runs;      // runs of expert_ids, if there are several
  std::vector<WeightForm> forms;    // one per weight group and layer
  bool operator==(const ShardShape&) const = default;
};

int64_t last_layer(const ShardDecl& shard) { return shard.layer + shard.layers - 1; }

std::vector<WeightForm> forms_in(const WeightPolicy& policy, const ShardDecl& shard) {
  std::vector<WeightForm> forms;
  // Without quantized weights, the forms of all layers are equal.
  if (policy.all_float()) return forms;
  for (int64_t layer = shard.layer; layer < shard.layer + std::max<int64_t>(shard.layers, 1);
       ++layer)
    for (size_t group = 0; group < enum_count<WeightGroup>; ++group)
      forms.push_back(policy.form_of(static_cast<WeightGroup>(group), layer));
  // If bits are chosen per tensor, hardly any two shards are equal.
  for (const auto& [tensor, form] : policy.chosen) {
    const bool held = tensor.expert < 0 || holds_expert(shard, tensor.expert);
    if (held && tensor.layer >= shard.layer && tensor.layer < shard.layer + shard.layers)
      forms.push_back(form);
  }
  return forms;
}

// Elements of a shard's routed experts.
int64_t expert_elements(const Plan& plan, const ShardDecl& shard, const MlpElements& expert) {
  if (shard.experts == 0) return 0;
  const auto layers = std::ssize(moe_layers_of(plan.model, shard));
  return layers * shard.experts * expert.of_width(slice_of(shard, expert.width).size);
}

// The properties of a layer that its shard depends on. A feed-forward shard is equal for all kinds
// of attention. Without this, the experts of a model with two kinds are compiled twice.
LayerConfig seen_by(const ShardDecl& shard, LayerConfig layer) {
  if (attends(shard.kind)) return layer;
  const LayerConfig any;
  layer.mixer = any.mixer;
  layer.window = any.window;
  layer.chunk = any.chunk;
  layer.rotated = any.rotated;
  layer.ahead = any.ahead;
  layer.attention = any.attention;
  return layer;
}

ShardShape shape_of(const Plan& plan, const ShardDecl& shard) {
  ShardShape shape;
  shape.kind = shard.kind;
  for (int64_t layer = shard.layer; layer < shard.layer + shard.layers; ++layer)
    shape.layers.push_back(seen_by(shard, at(plan.model.layers, layer)));
  shape.experts = shard.experts;
  if (!shard.expert_ids.empty()) shape.runs = expert_runs(shard);
  shape.vocab = shard.vocab_size;
  shape.slice_width = slice_of(shard, mlp_width(plan.model, shard.kind)).size;
  const bool norms = plan.model.norms_feed_forward();
  shape.first_part = norms ? begins_sum(shard, plan.build) : is_first_part(shard, plan.build);
  // The last slice applies the norm after the sum, because only it has the complete sum.
  shape.ends_layer = norms && shard.slice == shard.slices - 1;
  shape.starts_stream =
      attends(shard.kind) && shard.layer == 0 && plan.model.stream.residual == ResidualKind::affine;
  shape.gives_router_state =
      routes(shard.kind) && hands_on_router_state(plan.model, last_layer(shard));
  shape.forms = forms_in(plan.build.weights, shard);
  return shape;
}

// Adds the caches that the shard stores or reads as inputs.
void add_caches(const Shard& shard, ShardSize& size) {
  for (const State& state : shard.states) size.cache_bytes += state.type.bytes();
  for (const ValueId input : shard.inputs) {
    const std::string& name = shard.values[input].name;
    if (!is_cache_input(name)) continue;
    const int64_t bytes = shard.type(input).bytes();
    size.cache_bytes += bytes;
    if (name.starts_with(kHistoryPort) || name.starts_with(kRecurrentState))
      size.state_bytes += bytes;
  }
}

// Elements that passes add to routers; each is read and multiplied once per token.
int64_t added_elements(const Plan& plan, const ShardDecl& shard) {
  if (!routes(shard.kind)) return 0;
  const auto layers = static_cast<int64_t>(moe_layers_of(plan.model, shard).size());
  return layers * added_router_elements(plan.model, plan.build);
}

Result<ShardSize> measure(const Plan& plan, size_t index, const MlpElements& expert) {
  // Weights do not depend on the width, and MACs are divided by it, so the narrowest width
  // suffices.
  const int64_t tokens = plan.build.tokens.front();
  MOEC_ASSIGN(const Shard shard, build_shard(plan, index, tokens));
  const MoeConfig& moe = plan.model.moe;
  const ShardCost cost =
      count_cost(shard, std::max<int64_t>(moe.routing.top_k, 1), std::max<int64_t>(moe.experts, 1));
  ShardSize size;
  const int64_t added = added_elements(plan, plan.shards[index]);
  const int64_t element_bytes = dtype_bytes(plan.build.dtype);
  size.weights = cost.bytes_dense / element_bytes + added;
  size.weight_bytes = cost.bytes_dense + added * element_bytes;
  size.expert_bytes = expert_elements(plan, plan.shards[index], expert) * element_bytes;
  size.macs = cost.macs_dense / tokens + added;
  size.macs_active = cost.macs_active / tokens + added;
  add_caches(shard, size);
  return size;
}

}  // namespace

Result<std::vector<ShardSize>> measure_shards(const Plan& plan, const MeasureCompiled& compiled) {
  const MlpElements expert = moe_elements(plan.model, plan.build).expert;
  // Compiling a shard is slow, and many shards of a model have the same shape, so each shape is
  // measured once.
  std::vector<std::pair<ShardShape, ShardSize>> known;
  std::vector<ShardSize> sizes;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardShape shape = shape_of(plan, plan.shards[i]);
    auto found = std::find_if(known.begin(), known.end(),
                              [&](const auto& entry) { return entry.first == shape; });
    if (found == known.end()) {
      MOEC_ASSIGN(ShardSize size, measure(plan, i, expert));
      MOEC_ASSIGN(const CompiledSize more, compiled(i));
      size.peak_activation_bytes = more.peak_activation_bytes;
      size.measured = i;
      // The bytes of quantized weights are known only after compilation.
      if (!plan.build.weights.all_float()) {
        size.weight_bytes = more.weight_bytes;
        size.expert_bytes = more.expert_bytes;
      }
      found = known.insert(known.end(), {shape, size});
    }
    sizes.push_back(found->second);
  }
  return sizes;
}

}  // namespace moec
