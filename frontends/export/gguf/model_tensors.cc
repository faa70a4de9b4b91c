#include "frontends/export/gguf/model_tensors.h"

#include <fmt/format.h>

#include <utility>

#include "backends/formats/gguf/block_name.h"
#include "frontends/export/gguf/model_keys.h"
#include "ir/base/invariant.h"
#include "models/shards/delta_mixer.h"
#include "models/shards/expert_views.h"
#include "models/shards/needed_tensors.h"
#include "models/shards/router_views.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

enum ExpertPart { kGate, kUp, kDown };

struct ExpertRole {
  std::string_view role;
  ExpertPart part;
  bool bias;
};
constexpr ExpertRole kExpertRoles[] = {
    {"experts_gate", kGate, false}, {"experts_up", kUp, false},
    {"experts_down", kDown, false}, {"experts_gate_bias", kGate, true},
    {"experts_up_bias", kUp, true}, {"experts_down_bias", kDown, true},
};

const ExpertRole* find_expert_role(std::string_view role) {
  for (const ExpertRole& known : kExpertRoles)
    if (known.role == role) return &known;
  return nullptr;
}

const WeightView& part_of(const ExpertViews& views, ExpertPart part) {
  return part == kGate ? views.gate.value() : part == kUp ? views.up : views.down;
}

class TensorLister {
 public:
  TensorLister(const ModelConfig& model, const WeightTable& weights,
               const GgufArchitecture& architecture)
      : architecture_(architecture), named_(model) {
    plan_.model = model;
    plan_.weights = weights;
    // Only the architecture's names remain, so missing_roles() finds roles without a tensor in
    // GGUF.
    named_.names.by_role.clear();
    for (const auto& [role, name] : architecture.tensors) named_.names.by_role[role] = name;
    // needed_roles() then lists the head, although the checkpoint shares it with the embedding.
    if (architecture.writing.needs_head) named_.head.tied = false;
  }

  Result<std::vector<ModelTensor>> run() {
    for (const std::string& role : missing_roles(named_))
      return not_in_gguf(architecture_,
                         fmt::format("has no tensor for the {} of this model", role));
    // needed_roles() has the order of the model, so each part contains consecutive layers.
    for (const NeededRole& needed : needed_roles(named_)) add(needed);
    std::vector<float> divisors = rope_divisors(model(), architecture_);
    if (!divisors.empty()) {
      ModelTensor tensor;
      tensor.name = kGgufRopeFactors;
      tensor.dims = {std::ssize(divisors)};
      tensor.floats = std::move(divisors);
      tensors_.push_back(std::move(tensor));
    }
    return std::move(tensors_);
  }

 private:
  const ModelConfig& model() const { return plan_.model; }

  // View of a checkpoint tensor, found by its role in the checkpoint.
  WeightView stored(std::string role, int64_t layer, Dims dims) const {
    return weights_of(plan_)({std::move(role), layer, -1, std::move(dims)});
  }

  void add(const NeededRole& needed) {
    // One matrix in the checkpoint, but two tensors in GGUF files.
    if (needed.role == "kv_b") return add_latent(needed);
    const auto group = group_of_role(needed.role);
    MOEC_CHECK(group, "role {} belongs to no group of weights", needed.role);
    const FormedTensor formed{model(), needed.role, needed.layer, needed.dims};
    ModelTensor tensor{named_.names(needed.role, needed.layer), *group, needed.layer,
                       file_dims(formed)};
    // A reshape does not change the bytes, so it is harmless if the dims are already these.
    tensor.view =
        then(to_gguf_form(architecture_.forms, formed, view_of(needed)), ReshapeStep{tensor.dims});
    tensor.mxfp4 = microscaled(needed);
    tensors_.push_back(std::move(tensor));
  }

  // These roles are matrices with one row in the model, but vectors in GGUF files.
  Dims file_dims(const FormedTensor& formed) const {
    const bool is_row =
        formed.role == "shared_sigmoid_gate" || formed.role == "router_choice_bias_row";
    return is_row ? Dims{formed.dims.at(1)} : gguf_dims(architecture_.forms, formed);
  }

  WeightView view_of(const NeededRole& needed) const {
    if (find_expert_role(needed.role)) return stacked(needed);
    if (is_joined(needed.role)) return half_of_joined(needed);
    if (needed.role.starts_with("router_choice_bias")) return made_of(needed, router_choice_bias);
    if (needed.role == "router") return made_of(needed, router_matrix);
    if (needed.role == "lm_head" && model().head.tied) return stored("embed", -1, needed.dims);
    if (needed.role == "mixer_qkv" || needed.role == "mixer_z") return rows_of_mixer(needed);
    return stored(needed.role, needed.layer, needed.dims);
  }

  // Some checkpoints store q, k, v and z of a gated delta net in one tensor, per key head.
  WeightView rows_of_mixer(const NeededRole& needed) const {
    if (!model().names.has("mixer_qkvz")) return stored(needed.role, needed.layer, needed.dims);
    ShardDecl decl;
    decl.layer = needed.layer;
    const ShardScope scope(plan_, decl, 1, weights_of(plan_));
    const QkvzParts parts = parts_of_qkvz(scope);
    if (needed.role == "mixer_z") return parts.z;
    return concat_view(0, {parts.q, parts.k, parts.v});
  }

  // Concatenates all experts of a layer along the first axis.
  WeightView stacked(const NeededRole& needed) const {
    const ExpertRole& role = *find_expert_role(needed.role);
    ShardDecl decl;
    // The view functions need no more of the declaration than its layer.
    decl.layer = needed.layer;
    const ShardScope scope(plan_, decl, 1, weights_of(plan_));
    Dims one = needed.dims;
    // Each expert keeps an axis of length 1, along which the concatenation stacks them.
    one[0] = 1;
    std::vector<WeightView> experts;
    for (int64_t e = 0; e < model().moe.experts; ++e) {
      const ExpertViews views = role.bias ? expert_biases(scope, e) : expert_matrices(scope, e);
      experts.push_back(then(part_of(views, role.part), ReshapeStep{one}));
    }
    return concat_view(0, std::move(experts));
  }

  // True if the checkpoint stores the matrix as one half of a joined gate and up matrix.
  bool is_joined(std::string_view role) const {
    const bool is_half =
        role == "shared_gate_proj" || role == "shared_up" || role == "gate" || role == "up";
    return is_half && !model().names.has(role);
  }

  WeightView half_of_joined(const NeededRole& needed) const {
    const bool is_gate = needed.role.ends_with("gate") || needed.role.ends_with("gate_proj");
    Dims both = needed.dims;
    // The joined matrix has the rows of gate, then those of up.
    both[0] *= 2;
    return then(stored(needed.role.starts_with("shared_") ? "shared_gate_up" : "gate_up",
                       needed.layer, both),
                SliceStep{0, is_gate ? 0 : needed.dims.at(0), needed.dims.at(0)});
  }

  // Applies a view function of the shard builders to the layer.
  WeightView made_of(const NeededRole& needed, WeightView (*view)(const ShardScope&)) const {
    ShardDecl decl;
    decl.layer = needed.layer;
    return view(ShardScope(plan_, decl, 1, weights_of(plan_)));
  }

  // Splits kv_b [H · (nope + v), rank] into k_b [H, rank, nope] and v_b [H, v, rank].
  void add_latent(const NeededRole& needed) {
    const LatentConfig& latent = *model().attention.latent;
    const int64_t keys = latent.key_dims, values = latent.value_dims, rank = latent.kv_rank;
    const int64_t heads = needed.dims.at(0) / (keys + values);
    const WeightView both =
        then(stored("kv_b", needed.layer, needed.dims), ReshapeStep{{heads, keys + values, rank}});
    const auto add_part = [&](std::string_view name, Dims dims, WeightView view) {
      tensors_.push_back({block_name(needed.layer, name), WeightGroup::attn, needed.layer,
                          std::move(dims), std::move(view)});
    };
    add_part(kGgufLatentKeys, {heads, rank, keys},
             then(then(both, SliceStep{1, 0, keys}), PermuteStep{{0, 2, 1}}));
    add_part(kGgufLatentValues, {heads, values, rank}, then(both, SliceStep{1, keys, values}));
  }

  // MXFP4 checkpoints store codes [E, out, blocks, 16] and scales [E, out, blocks], with
  // alternating rows of gate and up.
  std::optional<WeightView> microscaled(const NeededRole& needed) const {
    const ExpertRole* role = find_expert_role(needed.role);
    if (role == nullptr || role->bias || model().stored.coding != WeightCoding::mxfp4)
      return std::nullopt;
    const bool is_down = role->part == kDown;
    const std::string name =
        model().names(is_down ? "experts_down_in_out" : "experts_gate_up_in_out", needed.layer);
    const TensorRange* blocks = plan_.weights.find(name + "_blocks");
    const TensorRange* scales = plan_.weights.find(name + "_scales");
    // Absent if the checkpoint stores these experts as floats.
    if (blocks == nullptr || scales == nullptr) return std::nullopt;
    const int64_t experts = needed.dims.at(0), rows = needed.dims.at(1);
    // A block has 1 byte of scale and half a byte per element: half + 1 bytes.
    const int64_t count = needed.dims.at(2) / kMxBlock, half = kMxBlock / 2;
    const auto rows_of = [&](const std::string& part, const TensorRange& range, int64_t bytes) {
      WeightView view = tensor_view(part, range.type);
      if (is_down) return then(std::move(view), ReshapeStep{{experts, rows, count, bytes}});
      view = then(then(std::move(view), ReshapeStep{{experts, rows, 2, count * bytes}}),
                  SliceStep{2, role->part == kGate ? 0 : 1, 1});
      return then(std::move(view), ReshapeStep{{experts, rows, count, bytes}});
    };
    WeightView whole = concat_view(
        3, {rows_of(name + "_scales", *scales, 1), rows_of(name + "_blocks", *blocks, half)});
    return then(std::move(whole), ReshapeStep{{experts, rows, count * (half + 1)}});
  }

  const GgufArchitecture& architecture_;
  ModelConfig named_;  // the model with the architecture's tensor names
  Plan plan_;          // the model with the checkpoint's tensor names
  std::vector<ModelTensor> tensors_;
};

}  // namespace

Result<std::vector<ModelTensor>> model_tensors(const ModelConfig& model, const WeightTable& weights,
                                               const GgufArchitecture& architecture) {
  return TensorLister(model, weights, architecture).run();
}

}  // namespace moec
