#include "frontends/compile/ane_book_form.h"

#include <fmt/format.h>

namespace moec {
namespace {

// What runtime/zaya_ane.swift fixes in its code.
constexpr int64_t kBookFrequencies = 32;
constexpr double kBookTheta = 5e6;
constexpr int64_t kBookRows = 8192;
constexpr int64_t kBookHeadSlices = 2;

tl::unexpected<Diagnostics> refuse(const std::string& what, const std::string& instead) {
  return fail("compat.ane_book", "the runtimes of the ane-book do not support " + what, instead);
}

// What the options of an export decide.
Status check_form(const Plan& plan, const manifest::Build& build, bool one_package_a_shard) {
  if (build.format != ShardFormat::coreml)
    return refuse("formats other than Core ML", "--target ane");
  if (build.dtype != DType::f16) return refuse("f32 tables", "--dtype f16");
  if (build.layout != Layout::channels)
    return refuse("layouts with the tokens on the last axis", "--layout channels");
  if (plan.build.layers_per_shard > 0)
    return refuse("whole layers in one shard", "leave --layers-per-shard out");
  if (!has_cache(build.cache)) return refuse("models without a KV cache", "leave --compat out");
  if (!updates_cache(build.cache)) return refuse("a KV cache as inputs", "--kv state");
  if (plan.build.host_routing)
    return refuse("routers in shards of their own",
                  "--routing rank or iterate, without --experts-per-shard");
  if (build.context > kBookRows)
    return refuse(fmt::format("a KV cache of more than {} rows", kBookRows),
                  fmt::format("--context {}", kBookRows));
  if (!one_package_a_shard)
    return refuse("a package for each token width", "--tokens 1, or --widths range");
  return {};
}

// What the model decides.
Status check_architecture(const Plan& plan) {
  for (const ShardDecl& shard : plan.shards)
    if (is_dense(shard.kind))
      return refuse(fmt::format("dense layers ({})", shard.name), "leave --compat out");
  for (const LayerConfig& layer : plan.model.layers)
    if (layer.chunk > 0 || !layer.rotated)
      return refuse("attention in chunks or layers without rotary embeddings",
                    "leave --compat out");
  if (!plan.model.more_attention.empty() || plan.model.norms_feed_forward())
    return refuse("layers whose attention differs, or norms behind attention and experts",
                  "leave --compat out");
  if (plan.model.attention.convolved || plan.model.moe.router_hidden > 0)
    return refuse("convolved attention or routers that carry a state", "leave --compat out");
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

void note_fixed_in_book(const Plan& plan, Diagnostics& notes) {
  const RopeConfig& rope = plan.model.attention.rope;
  if (rope.dims / 2 == kBookFrequencies && rope.theta == kBookTheta &&
      rope.scaling == RopeScaling::none)
    return;
  notes.push_back(
      {Severity::warning,
       "export.book_rotation",
       fmt::format("the runtimes of the ane-book compute {} rotary frequencies of base {}, this "
                   "model has {} of base {}{}",
                   kBookFrequencies, kBookTheta, rope.dims / 2, rope.theta,
                   rope.scaling == RopeScaling::none ? "" : ", scaled"),
       "set ropeHalf and the tables of runtime/zaya_ane.swift by rope.bin "
       "(backends/formats/coreml/README.md)",
       {}});
}

}  // namespace moec
