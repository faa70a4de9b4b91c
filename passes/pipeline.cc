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
    {"limit_capacity", limit_capacity, kModel, kModel, "tokens beyond an expert's share dropped"},
    {"expand_sigmoid", expand_sigmoid, kModel, kModel, "sigmoids of mixers by exp and reciprocal"},
    {"lower_router", lower_router, kModel, kModel, "routers as elementwise ops and reductions"},
    {"mask_experts", mask_experts, kModel, kModel, "experts kept from being chosen"},
    {"unroll_experts", unroll_experts, kModel, kModel, "each expert by itself, added up"},
    {"bank_experts", bank_experts, kModel, kModel, "all experts in three projections"},
    {"lower_attention", lower_attention, kModel, kModel, "attention as matmuls and a softmax"},
    {"lower_rms_norm", lower_rms_norm, kModel, kModel, "norms as elementwise ops and a mean"},
    {"lower_gated_mlp", lower_gated_mlp, kModel, kLowered, "gated MLPs as three projections"},
    {"linear_to_conv", linear_to_conv, kLowered, kStatic, "projections as 1x1 convolutions"},
    {"linear_to_matmul", linear_to_matmul, kLowered, kStatic, "projections as matmuls"},
    {"cast_to_select", cast_to_select, kStatic, kStatic, "casts of truth values as selects"},
    {"limit_channels", limit_channels, kStatic, kStatic,
     "values of more channels than the target takes in parts"},
    {"fold_weight_views", fold_weight_views, kStatic, kStatic,
     "shape ops on weights as steps of the weights' views"},
    {"fold_constants", fold_constants, kStatic, kStatic,
     "ops on constants computed, ops that change nothing removed"},
    {"limit_fan_in", limit_fan_in, kStatic, kStatic,
     "concats of more parts than the target takes as trees"},
    {"guard_activations", guard_activations, kStatic, kStatic,
     "a maximum between projections and their activations"},
    {"slice_in_blocks", slice_in_blocks, kStatic, kStatic, "narrow slices as slices of blocks"},
    {"bound_exponents", bound_exponents, kStatic, kStatic,
     "a maximum between values and their exp"},
    {"merge_reciprocals", merge_reciprocals, kStatic, kStatic,
     "products with reciprocals as divisions"},
    {"eliminate_common", eliminate_common, kStatic, kStatic,
     "equal ops replaced by the first of them"},
    {"eliminate_dead", eliminate_dead, kStatic, kStatic, "ops that nothing depends on removed"},
    {"hoist_state_writes", hoist_state_writes, kStatic, kStatic,
     "states written right after their values are made"},
    {"limit_extents", limit_extents, kStatic, kStatic,
     "an error if an axis of a value is longer than the target takes"},
    {"encode_weights", encode_weights, kStatic, kStatic, "matrices of projections in few bits"},
    {"batch_coded_matmuls", batch_coded_matmuls, kStatic, kStatic,
     "matmuls with codes in blocks of [1, T, C]"},
    {"place", place, kStatic, kPlaced, "an error if the target's rules refuse an op"},
};

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses) names.push_back(pass.name);
  return names;
}

// The pass where a pipeline needs it, else none.
constexpr std::string_view when(bool needed, std::string_view pass) { return needed ? pass : ""; }

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
  const bool bank = options.experts == ExpertForm::bank;
  const bool conv = options.target.projection == ProjectionForm::conv;
  const TargetLimits& limits = options.target.limits;
  const bool batches_codes =
      !options.weights.all_float() && options.target.engine.coded_matmul_rank > 2 && !conv;
  std::vector<const Pass*> pipeline;
  for (std::string_view name : {
           // Before the routers are lowered, of which it is told k and the number of experts.
           when(options.capacity > 0, "limit_capacity"),
           // Before routers and MLPs are lowered, whose sigmoids keep the op.
           when(options.target.engine.expand_sigmoid, "expand_sigmoid"),
           std::string_view("lower_router"),
           // Right after the routers are lowered: other passes may merge the values that it limits.
           when(!options.kept_experts.empty(), "mask_experts"),
           std::string_view(bank ? "bank_experts" : "unroll_experts"),
           std::string_view("lower_attention"),
           std::string_view("lower_rms_norm"),
           // The last of the lowerings: its result has the form `lowered`, in which the verifier
           // refuses composites.
           std::string_view("lower_gated_mlp"),
           // After every lowering that makes projections.
           std::string_view(conv ? "linear_to_conv" : "linear_to_matmul"),
           // Before constants are folded, because the conditions may be constant.
           when(limits.no_casts, "cast_to_select"),
           // After convolutions were made, which it splits; before weight views are folded, because
           // it slices weights.
           when(limits.channels > 0, "limit_channels"),
           // After projections have reshaped their weights, and before common ops are eliminated,
           // so that equal views are one weight.
           std::string_view("fold_weight_views"),
           // After the concats of weights have become views.
           when(limits.fan_in > 0, "limit_fan_in"),
           // Before common ops are eliminated: folding makes more constants and shape ops equal.
           std::string_view("fold_constants"),
           // Before common ops are eliminated: their constants and reshapes are equal.
           when(limits.guarded, "guard_activations"),
           when(limits.narrow_slice > 0, "slice_in_blocks"),
           when(limits.exp_below > 0, "bound_exponents"),
           // Before dead ops are eliminated: it leaves the reciprocals without users.
           when(limits.no_reciprocals, "merge_reciprocals"),
           std::string_view("eliminate_common"),
           // After every pass that leaves ops without users.
           std::string_view("eliminate_dead"),
           // After every pass that changes the order of ops.
           when(options.target.has_state, "hoist_state_writes"),
           // After every pass that removes ops.
           when(limits.extent > 0, "limit_extents"),
           // After every pass that folds or counts views and activations: what it adds are
           // transposes of weights.
           when(!options.weights.all_float(), "encode_weights"),
           when(batches_codes, "batch_coded_matmuls"),
           // Last: the target is asked only about ops that will be emitted.
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
                  fmt::format("pass {} takes form {}, but the shard is in form {} there",
                              pass->name, form_name(pass->from), form_name(form)),
                  "moec opt --list-passes shows the form that each pass takes and gives");
    form = pass->to;
  }
  return {};
}

Result<std::vector<const Pass*>> parse_pipeline(std::string_view names) {
  std::vector<const Pass*> passes;
  for (std::string_view name : split_at_commas(names)) {
    const Pass* pass = find_pass(name);
    if (!pass)
      return fail(
          "passes.unknown",
          fmt::format("there is no pass named '{}'{}", name, did_you_mean(name, pass_names())),
          fmt::format("the passes are {}", fmt::join(pass_names(), ", ")));
    passes.push_back(pass);
  }
  return passes;
}

}  // namespace moec
