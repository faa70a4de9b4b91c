#include "passes/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/base/nearest.h"
#include "passes/passes.h"

namespace moec {
namespace {

constexpr Form kModel = Form::model, kLowered = Form::lowered, kStatic = Form::static_ops,
               kPlaced = Form::placed;

constexpr Pass kPasses[] = {
    {"limit_capacity", limit_capacity, kModel, kModel, "drops tokens beyond an expert's share"},
    {"expand_sigmoid", expand_sigmoid, kModel, kModel,
     "replaces sigmoids of mixers by exp and reciprocal"},
    {"lower_router", lower_router, kModel, kModel,
     "lowers routers to elementwise ops and reductions"},
    {"mask_experts", mask_experts, kModel, kModel, "excludes experts from the choice"},
    {"fuse_experts", fuse_experts, kModel, kModel,
     "computes all experts of a group in one op of the target's engine"},
    {"unroll_experts", unroll_experts, kModel, kModel,
     "computes each expert separately and adds the results"},
    {"bank_experts", bank_experts, kModel, kModel, "computes all experts in three projections"},
    {"open_attention", open_attention, kModel, kModel,
     "leaves attention to an op outside of the shard"},
    {"lower_attention", lower_attention, kModel, kModel,
     "lowers attention to matmuls and a softmax"},
    {"lower_rms_norm", lower_rms_norm, kModel, kModel,
     "lowers norms to elementwise ops and a mean"},
    {"lower_gated_mlp", lower_gated_mlp, kModel, kLowered,
     "lowers gated MLPs to three projections"},
    {"linear_to_conv", linear_to_conv, kLowered, kStatic, "lowers projections to 1x1 convolutions"},
    {"linear_to_matmul", linear_to_matmul, kLowered, kStatic, "lowers projections to matmuls"},
    {"cast_to_select", cast_to_select, kStatic, kStatic, "replaces casts of booleans by selects"},
    {"limit_channels", limit_channels, kStatic, kStatic,
     "splits values with more channels than the target's limit"},
    {"fold_weight_views", fold_weight_views, kStatic, kStatic,
     "moves shape ops on weights into the weights' views"},
    {"fold_constants", fold_constants, kStatic, kStatic,
     "evaluates ops on constants and removes identities"},
    {"limit_fan_in", limit_fan_in, kStatic, kStatic,
     "splits concats with more parts than the target's limit into trees"},
    {"guard_activations", guard_activations, kStatic, kStatic,
     "inserts a maximum between projections and activations"},
    {"slice_in_blocks", slice_in_blocks, kStatic, kStatic,
     "replaces narrow slices by slices of blocks"},
    {"bound_exponents", bound_exponents, kStatic, kStatic, "inserts a maximum before exp"},
    {"merge_reciprocals", merge_reciprocals, kStatic, kStatic,
     "replaces products with reciprocals by divisions"},
    {"eliminate_common", eliminate_common, kStatic, kStatic,
     "replaces equal ops by the first of them"},
    {"eliminate_dead", eliminate_dead, kStatic, kStatic,
     "removes ops without effect on outputs and states"},
    {"hoist_state_writes", hoist_state_writes, kStatic, kStatic,
     "moves state writes directly after their values"},
    {"limit_extents", limit_extents, kStatic, kStatic,
     "reports values with an axis above the target's limit"},
    {"encode_weights", encode_weights, kStatic, kStatic,
     "stores the matrices of projections as codes or rows"},
    {"split_zeros", split_zeros, kStatic, kStatic,
     "computes float zeros of codes in products of their own"},
    {"batch_coded_matmuls", batch_coded_matmuls, kStatic, kStatic,
     "gives block-quantized matmuls operands [1, T, C]"},
    {"place", place, kStatic, kPlaced, "reports ops that the target's rules refuse"},
};

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses) names.push_back(pass.name);
  return names;
}

// Returns `pass` if it is needed, else an empty name.
constexpr std::string_view when(bool needed, std::string_view pass,
                                std::string_view otherwise = "") {
  return needed ? pass : otherwise;
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : kPasses)
    if (pass.name == name) return &pass;
  return nullptr;
}

std::vector<const Pass*> default_pipeline(const PassOptions& options) {
  const TargetEngine& engine = options.target.engine;
  const bool codes = !options.weights.all_float();
  const bool conv = options.target.projection == ProjectionForm::conv;
  const TargetLimits& limits = options.target.limits;
  std::vector<const Pass*> pipeline;
  for (std::string_view name : {
           // Before routers are lowered, because it reads their k and number of experts.
           when(options.capacity > 0, "limit_capacity"),
           // Before routers and MLPs are lowered: their sigmoids must keep the op.
           when(engine.expand_sigmoid, "expand_sigmoid"),
           // Before routers are lowered, because it reads their k, and before experts are.
           when(options.routing == RoutingForm::op, "fuse_experts"),
           std::string_view("lower_router"),
           // Directly after routers are lowered, because other passes may merge what it clamps.
           when(!options.kept_experts.empty(), "mask_experts"),
           when(options.experts == ExpertForm::bank, "bank_experts", "unroll_experts"),
           // Before the attention that it leaves is lowered.
           when(options.open_attention, "open_attention"),
           std::string_view("lower_attention"),
           std::string_view("lower_rms_norm"),
           // The last lowering of composites: the verifier rejects them in the form `lowered`.
           std::string_view("lower_gated_mlp"),
           // After every lowering that emits projections.
           std::string_view(conv ? "linear_to_conv" : "linear_to_matmul"),
           // Before constants are folded, because conditions may be constant.
           when(limits.no_casts, "cast_to_select"),
           // After projections are lowered to convolutions, which it splits; before weight views
           // are folded, because it slices weights.
           when(limits.channels > 0, "limit_channels"),
           // After projections have reshaped their weights; before common ops are eliminated, so
           // that equal views become one weight.
           std::string_view("fold_weight_views"),
           // After the concats of weights have become views.
           when(limits.fan_in > 0, "limit_fan_in"),
           // Before common ops are eliminated, because folding makes more ops equal.
           std::string_view("fold_constants"),
           // Before common ops are eliminated: these passes add equal constants and reshapes.
           when(limits.guarded, "guard_activations"),
           when(limits.narrow_slice > 0, "slice_in_blocks"),
           when(limits.exp_below > 0, "bound_exponents"),
           // Before dead ops are eliminated, because it leaves the reciprocals without users.
           when(limits.no_reciprocals, "merge_reciprocals"),
           std::string_view("eliminate_common"),
           // After every pass that leaves ops without users.
           std::string_view("eliminate_dead"),
           // After every pass that changes the order of ops.
           when(options.target.has_state, "hoist_state_writes"),
           // After every pass that removes ops.
           when(limits.extent > 0, "limit_extents"),
           // After passes that fold views or count channels: it adds transposes of weights.
           when(codes || engine.matrix_rows, "encode_weights"),
           when(codes && engine.splits_zeros, "split_zeros"),
           when(codes && engine.coded_matmul_rank > 2 && !conv, "batch_coded_matmuls"),
           // Last: the rules apply only to ops that will be emitted.
           std::string_view("place"),
       })
    if (!name.empty()) pipeline.push_back(find_pass(name));
  return pipeline;
}

Status check_pipeline(std::span<const Pass* const> passes, Form start) {
  Form form = start;
  for (const Pass* pass : passes) {
    if (pass->from != form)
      return fail("passes.order",
                  fmt::format("pass {} requires form {}, but the shard is in form {}", pass->name,
                              form_name(pass->from), form_name(form)),
                  "check the order; moec opt --list-passes shows the forms of each pass");
    form = pass->to;
  }
  return {};
}

Result<std::vector<const Pass*>> parse_pipeline(std::string_view names) {
  std::vector<const Pass*> passes;
  for (std::string_view name : split_at_commas(names)) {
    const Pass* pass = find_pass(name);
    if (!pass)
      return fail("passes.unknown",
                  fmt::format("unknown pass '{}'{}", name, did_you_mean(name, pass_names())),
                  fmt::format("use one of {}", fmt::join(pass_names(), ", ")));
    passes.push_back(pass);
  }
  return passes;
}

}  // namespace moec
