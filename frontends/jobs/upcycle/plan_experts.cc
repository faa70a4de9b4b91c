#include "frontends/jobs/upcycle/plan_experts.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "frontends/checkpoint/counted_normal.h"
#include "ir/base/invariant.h"
#include "models/shards/needed_tensors.h"

namespace moec {
namespace {

// Standard deviation of the gate row of a shared expert. It is not 0, because runtimes that compute
// sigmoid(z) as silu(z) / z divide by zero for a row of zeros.
constexpr double kGateRowStd = 1e-3;
// Compensates for the gate: sigmoid(z) is about 1/2 for a row with kGateRowStd.
constexpr double kGatedShared = 2;

TensorPiece zeros(Dims dims) {
  // A view that repeats one number occupies no bytes of the source.
  return {splat_view(0, {DType::f32, std::move(dims)}), {}, {}, 1, {}};
}

enum class Part : uint8_t { gate, up, down };
constexpr auto enum_names(Part) { return name_table<Part>({"gate", "up", "down"}); }

// Plans the tensors of one layer that gets experts.
class LayerPlan {
 public:
  LayerPlan(const ExpertPlanInput& input, int64_t layer) : input_(input), layer_(layer) {
    for (const FfnSource& source : input.parts)
      parts_.push_back(source.parts(input.weights, layer));
    dense_ = input.dense.parts(input.weights, layer);
  }

  // The type of the new tensor.
  Type type(const Dims& dims) const {
    return {input_.dtype.value_or(view_type(dense_.down.view)->dtype), dims};
  }

  // Appends the tensors of a role: one tensor, or one per expert.
  void add(const NeededRole& role, std::vector<NewTensor>& tensors) const {
    // Models store experts either as separate tensors or as one stacked tensor.
    for (int64_t e = 0; e < role.experts; ++e)
      tensors.push_back({name_of(role, e), type(role.dims), {expert(part_of(role.role), e)}});
    if (role.experts == 0) tensors.push_back(whole(role));
  }

 private:
  std::string name_of(const NeededRole& role, int64_t expert) const {
    return input_.moe.names(role.role, layer_, expert);
  }

  static Part part_of(const std::string& role) {
    // Most names of roles end with the matrix. The callers handle fused roles and shared_gate_proj.
    if (role.ends_with("down")) return Part::down;
    return role.ends_with("up") ? Part::up : Part::gate;
  }

  NewTensor whole(const NeededRole& role) const {
    NewTensor tensor{input_.moe.names(role.role, layer_), type(role.dims), {}};
    // The bias stays f32 in 16-bit checkpoints, as in transformers.
    if (role.role == "router_choice_bias") tensor.type.dtype = DType::f32;
    tensor.pieces = pieces(role);
    return tensor;
  }

  std::vector<TensorPiece> pieces(const NeededRole& role) const {
    if (role.role == "router") return router(role.dims);
    if (role.role == "router_choice_bias") return {zeros(role.dims)};
    if (role.role == "shared_sigmoid_gate")
      return {drawn(role.dims, kGateRowStd, "gate of the shared expert")};
    if (role.role.starts_with("shared_")) return shared(role);
    return all_experts(role.role);
  }

  uint64_t seed(const std::string& purpose) const {
    // Seeds depend on purpose and layer, so adding a layer does not change the values of others.
    return seed_for(input_.start.seed, fmt::format("{} of layer {}", purpose, layer_));
  }

  TensorPiece drawn(Dims dims, double std, const std::string& purpose) const {
    TensorPiece piece = zeros(std::move(dims));
    piece.noise = Noise{std, seed(purpose)};
    return piece;
  }

  std::vector<TensorPiece> router(const Dims& dims) const {
    const ExpertStart& start = input_.start;
    // Equal rows give equal scores, so ties decide, as the README explains.
    if (start.router == RouterInit::zero) return {zeros(dims)};
    // Rows of a group share a seed, so that their scores are equal for every token.
    const int64_t same = start.router == RouterInit::shared ? input_.shape.equal_rows() : 1;
    std::vector<TensorPiece> rows;
    for (int64_t e = 0; e < dims[0]; ++e)
      rows.push_back(drawn({1, dims[1]}, start.router_std, fmt::format("router row {}", e / same)));
    return rows;
  }

  // Returns hidden units [begin, begin + size) of one matrix of a feed-forward part.
  static TensorPiece units(const FfnParts& parts, Part part, int64_t begin, int64_t size) {
    MatrixPart cut = part == Part::down
                         ? columns_of(parts.down, begin, size)
                         : rows_of(part == Part::up ? parts.up : *parts.gate, begin, size);
    return {std::move(cut.view), std::move(cut.low_rank), {}, 1, {}};
  }

  double factor(Part part) const {
    const PartFactors& factors = input_.factors;
    return part == Part::down ? factors.down : part == Part::up ? factors.up : factors.gate;
  }

  TensorPiece expert(Part part, int64_t e) const {
    const ResolvedShape& shape = input_.shape;
    const int64_t group = e / shape.granularity, shard = e % shape.granularity;
    // Groups are assigned to models in turn, so that each model gets the same number of groups.
    const FfnParts& parts = parts_[static_cast<size_t>(group % std::ssize(parts_))];
    TensorPiece piece =
        units(parts, part, shape.shared_width + shard * shape.expert_ff, shape.expert_ff);
    piece.factor = factor(part);
    const std::string purpose = fmt::format("{} of expert {}", enum_name(part), e);
    // Rows of gate and up are units; in down, columns are units.
    // The seed does not name the matrix: gate, up and down redraw the same units.
    if (shape.redrawn > 0)
      piece.redraw = Redraw{counted_choice(seed(fmt::format("units of expert {}", e)),
                                           shape.expert_ff, shape.redrawn),
                            part == Part::down ? size_t{1} : size_t{0}, whole_of(parts, part),
                            seed("new units, " + purpose)};
    if (input_.start.noise > 0)
      piece.noise = Noise{input_.start.noise, seed("noise on " + purpose)};
    return piece;
  }

  static WeightView whole_of(const FfnParts& parts, Part part) {
    return part == Part::down ? parts.down.view
           : part == Part::up ? parts.up.view
                              : parts.gate->view;
  }

  // All experts, stacked in one tensor.
  std::vector<TensorPiece> all_experts(const std::string& role) const {
    std::vector<TensorPiece> all;
    for (int64_t e = 0; e < input_.shape.experts; ++e) {
      // A fused tensor has, per expert, the rows of gate and then those of up.
      if (role == "experts_gate_up") all.push_back(expert(Part::gate, e));
      all.push_back(expert(role == "experts_gate_up" ? Part::up : part_of(role), e));
    }
    return all;
  }

  std::vector<TensorPiece> shared(const NeededRole& role) const {
    const bool both = role.role == "shared_gate_up";
    const Part part = role.role == "shared_gate_proj" ? Part::gate : part_of(role.role);
    // The architecture requires a shared expert, but none was requested. A zero down matrix makes
    // its output 0.
    if (input_.shape.shared_width == 0) {
      if (part == Part::down) return {zeros(role.dims)};
      // Gate and up are random: with zeros, the gradients of all three matrices would vanish.
      return {drawn(role.dims, input_.start.router_std, role.role)};
    }
    std::vector<TensorPiece> pieces;
    if (both) pieces.push_back(units(dense_, Part::gate, 0, input_.shape.shared_width));
    pieces.push_back(units(dense_, part, 0, input_.shape.shared_width));
    if (part == Part::down && input_.moe.moe.shared_gated) pieces.back().factor = kGatedShared;
    return pieces;
  }

  const ExpertPlanInput& input_;
  int64_t layer_;
  std::vector<FfnParts> parts_;  // by model
  FfnParts dense_;
};

bool is_expert_role(std::string_view role) {
  return role == "router" || role == "router_choice_bias" || role.starts_with("expert") ||
         role.starts_with("shared_");
}

bool is_bias(std::string_view role) { return role.ends_with("_bias"); }

// Plans a tensor that the new model takes over from the dense model. Biases that the dense model
// lacks are zeros.
Result<NewTensor> kept(const ExpertPlanInput& input, const NeededRole& role) {
  const ModelConfig& dense = input.dense.model;
  const std::string as = input.moe.names(role.role, role.layer);
  const std::string name =
      dense.names.has(role.role) ? dense.names(role.role, role.layer) : std::string();
  const auto type_of = [&](const WeightView& view) {
    const Type type = *view_type(view);
    return Type{input.dtype.value_or(type.dtype), type.dims};
  };
  std::optional<WeightView> found = input.weights.view(input.dense.prefix + name);
  if (found && !name.empty()) {
    const Type type = type_of(*found);
    return NewTensor{as, type, {{std::move(*found), {}, {}, 1, {}}}};
  }
  // Some architectures have biases that the dense model lacks; zeros do not change the result.
  if (is_bias(role.role)) {
    // A bias without a source gets the type of the embedding, which every model has.
    const auto embed = input.weights.view(input.dense.prefix + dense.names("embed"));
    MOEC_CHECK(embed, "the table lacks the embedding");
    return NewTensor{as, {type_of(*embed).dtype, role.dims}, {zeros(role.dims)}};
  }
  return fail("upcycle.arch", fmt::format("the dense model has no tensor for {}", as),
              "choose another --arch", {.tensor = as});
}

using RoleOfLayer = std::pair<std::string, int64_t>;  // role and layer

// A tensor of the dense model without a counterpart in the new model would be lost silently.
Status check_all_placed(const ExpertPlanInput& input, const std::set<RoleOfLayer>& placed) {
  for (const NeededRole& role : needed_roles(input.dense.model)) {
    const bool replaced = role.layer >= 0 && input.shape.layers[static_cast<size_t>(role.layer)] &&
                          is_ffn_role(role.role);
    if (!replaced && !placed.contains({role.role, role.layer}))
      return fail("upcycle.arch", "the tensor has no counterpart in the new model",
                  "choose another --arch",
                  {.tensor = input.dense.model.names(role.role, role.layer)});
  }
  return {};
}

}  // namespace

Result<std::vector<NewTensor>> plan_experts(const ExpertPlanInput& input) {
  std::vector<NewTensor> tensors;
  std::set<RoleOfLayer> placed;
  std::optional<LayerPlan> plan;
  int64_t planned = -1;
  for (const NeededRole& role : needed_roles(input.moe)) {
    if (role.layer >= 0 && at(input.moe.layers, role.layer).moe && is_expert_role(role.role)) {
      // Roles are ordered by layer, so one plan at a time suffices.
      if (planned != role.layer) plan.emplace(input, planned = role.layer);
      plan->add(role, tensors);
      continue;
    }
    placed.emplace(role.role, role.layer);
    MOEC_ASSIGN(tensors.emplace_back(), kept(input, role));
  }
  MOEC_TRY(check_all_placed(input, placed));
  return tensors;
}

}  // namespace moec
