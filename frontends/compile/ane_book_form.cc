#include "frontends/compile/ane_book_form.h"

#include <fmt/format.h>

namespace moec {
namespace {

// Constants of runtime/zaya_ane.swift.
constexpr int64_t kBookFrequencies = 32;
constexpr double kBookTheta = 5e6;
// Longest cache that the runtime's masks support.
constexpr int64_t kBookRows = 8192;
// Slices of the head in the ane-book's own exports.
constexpr int64_t kBookHeadSlices = 2;

tl::unexpected<Diagnostics> refuse(const std::string& what, const std::string& instead) {
  return fail("compat.ane_book", "the ane-book runtimes do not support " + what, instead);
}

// Checks the export options.
Status check_form(const Plan& plan, const manifest::Build& build, bool one_package_a_shard) {
  if (build.format != ShardFormat::coreml)
    return refuse("formats other than Core ML", "use --target ane");
  if (build.dtype != DType::f16) return refuse("f32 tables", "use --dtype f16");
  if (build.layout != Layout::channels)
    return refuse("layouts with the tokens on the last axis", "use --layout channels");
  if (plan.build.layers_per_shard > 0)
    return refuse("whole layers in one shard", "omit --layers-per-shard");
  if (!has_cache(build.cache)) return refuse("models without a KV cache", "omit --compat");
  if (!updates_cache(build.cache)) return refuse("a KV cache as inputs", "use --kv state");
  // The runtimes run a MoE layer as one package, so its router cannot be a separate shard.
  if (plan.build.host_routing)
    return refuse("routers in separate shards",
                  "use --routing rank or iterate, without --experts-per-shard");
  if (build.context > kBookRows)
    return refuse(fmt::format("a KV cache of more than {} rows", kBookRows),
                  fmt::format("use --context {} or less", kBookRows));
  // The meta file names one package per layer, so this package must serve every token width.
  if (!one_package_a_shard)
    return refuse("one package per token width", "use --tokens 1 or --widths range");
  return {};
}

// Checks the architecture of the model.
Status check_architecture(const Plan& plan) {
  // The runtimes alternate attention and MoE packages. A dense layer has no place in that order.
  for (const ShardDecl& shard : plan.shards)
    if (is_dense(shard.kind))
      return refuse(fmt::format("dense layers ({})", shard.name), "omit --compat");
  for (const LayerConfig& layer : plan.model.layers)
    if (layer.chunk > 0 || !layer.rotated)
      return refuse("chunked attention or layers without rotary embeddings", "omit --compat");
  if (!plan.model.more_attention.empty() || plan.model.norms_feed_forward())
    return refuse("layers with different attention, or norms after attention and experts",
                  "omit --compat");
  if (plan.model.attention.convolved || plan.model.moe.router_hidden > 0)
    return refuse("convolved attention or routers with a state", "omit --compat");
  return {};
}

}  // namespace

void cut_for_ane_book(CutOptions& cuts) {
  cuts.keep_moe_layers = true;
  cuts.least_head_slices = kBookHeadSlices;
}

Status check_ane_book(const Plan& plan, const manifest::Build& build, bool one_package_a_shard) {
  MOEC_TRY(check_form(plan, build, one_package_a_shard));
  return check_architecture(plan);
}

// A warning and not an error, because the user can edit the constants in the runtime's source.
void note_fixed_in_book(const Plan& plan, Diagnostics& notes) {
  const RopeConfig& rope = plan.model.attention.rope;
  if (rope.dims / 2 == kBookFrequencies && rope.theta == kBookTheta &&
      rope.scaling == RopeScaling::none)
    return;
  notes.push_back(
      {Severity::warning,
       "export.book_rotation",
       fmt::format("the ane-book runtimes compute {} rotary frequencies of base {}, but this "
                   "model has {} of base {}{}",
                   kBookFrequencies, kBookTheta, rope.dims / 2, rope.theta,
                   rope.scaling == RopeScaling::none ? "" : ", scaled"),
       "set ropeHalf and the tables in runtime/zaya_ane.swift from rope.bin "
       "(backends/formats/coreml/README.md)",
       {}});
}

}  // namespace moec
