#include "models/plan/check_build_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {
namespace {

Status bad_option(std::string cause, std::string next) {
  return fail("plan.options", std::move(cause), std::move(next));
}

Status check_context(const ModelConfig& model, const BuildOptions& options) {
  if (options.context < 1 || options.context > model.max_positions)
    return fail("plan.context",
                fmt::format("the context is {} tokens, the model supports 1 to {}", options.context,
                            model.max_positions),
                "choose another context length");
  if (options.tokens.empty() || options.tokens.front() < 1)
    return bad_option("the token widths must be positive", "use widths such as 1,64");
  if (std::adjacent_find(options.tokens.begin(), options.tokens.end(), std::greater_equal<>()) !=
      options.tokens.end())
    return bad_option("the token widths must ascend",
                      "list each width once, in ascending order, such as 1,64");
  // The widths ascend, so the last one is the largest.
  if (options.tokens.back() > options.context)
    return fail("plan.context",
                fmt::format("a step of {} tokens does not fit into a context of {}",
                            options.tokens.back(), options.context),
                "choose a longer context or fewer tokens");
  return {};
}

Status check_joined_layers(const BuildOptions& options) {
  if (options.layers_per_shard < 0)
    return bad_option(fmt::format("shards of {} layers are not possible", options.layers_per_shard),
                      "choose at least one layer");
  if (options.layers_per_shard > 0 && options.host_routing)
    return bad_option(
        "a layer with separate shards for router or experts cannot be in a shard of whole layers",
        "omit --layers-per-shard, or the flags that cut experts: --routing host, "
        "--experts-per-shard and --max-shard-mb");
  if (options.layers_per_shard > 0 && updates_cache(options.cache))
    return bad_option(
        "shards of whole layers need caches as inputs, because device states hold one layer",
        "use --kv io, or omit --layers-per-shard");
  return {};
}

// Shards of several layers have one list of experts.
Status check_drop_masked(const BuildOptions& options) {
  if (!options.experts.drop_masked || options.layers_per_shard == 0) return {};
  return bad_option(
      "masked experts cannot be dropped from shards of whole layers, whose masks may differ",
      "omit --drop-masked or --layers-per-shard");
}

Status check_slices(const ModelConfig& model, const BuildOptions& options) {
  // One slice is the uncut matrix, so it is valid even if the width is 0.
  const auto cut = [](std::string_view what, int64_t slices, int64_t width) -> Status {
    if (slices == 1 || (slices > 1 && slices <= width)) return {};
    return bad_option(
        fmt::format("{} slices of {} with a width of {} are not possible", slices, what, width),
        "choose from one slice to one per column");
  };
  MOEC_TRY(cut("an MLP", options.slices.mlp, model.mlp.ff));
  if (model.moe.experts > 0) MOEC_TRY(cut("an expert", options.slices.expert, model.moe.expert_ff));
  if (options.slices.shared > 0)
    MOEC_TRY(cut("the shared expert", options.slices.shared, model.moe.shared_ff));
  if (!options.host_routing && (options.slices.expert > 1 || options.slices.shared > 0))
    return bad_option("slices of experts require host routing", "use --routing host");
  return {};
}

}  // namespace

Status check_build_options(const ModelConfig& model, const BuildOptions& options) {
  if (options.dtype != DType::f32 && options.dtype != DType::f16)
    return bad_option(fmt::format("shards cannot be of type {}", dtype_name(options.dtype)),
                      "choose f32 or f16");
  if (options.layout == Layout::plain)
    return bad_option("token tensors need a layout", "choose channels or rows");
  if (!has_cache(options.cache) && model.keeps_cache())
    return bad_option("attention shards need a cache", "choose append or blend");
  if (options.head_slices < 1 || options.head_slices > model.logits())
    return bad_option(fmt::format("{} slices of a head with {} rows are not possible",
                                  options.head_slices, model.logits()),
                      "choose from one slice to one per row");
  if (options.experts_per_shard < 0 || (options.experts_per_shard > 0 && !options.host_routing))
    return bad_option("several expert groups require host routing",
                      "use --routing host, or omit --experts-per-shard");
  MOEC_TRY(check_joined_layers(options));
  MOEC_TRY(check_drop_masked(options));
  MOEC_TRY(check_slices(model, options));
  return check_context(model, options);
}

}  // namespace moec
