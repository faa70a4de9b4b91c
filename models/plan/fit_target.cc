#include "models/plan/fit_target.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {
namespace {

int64_t parts_within(int64_t whole, int64_t limit) {
  return limit == 0 ? 1 : (whole + limit - 1) / limit;
}

// Chooses the smallest number of equal pages within the target's limit. Pages must be equal,
// because they are an axis of one tensor.
Status choose_pages(const Target& target, BuildOptions& build) {
  const int64_t least = parts_within(build.context, target.limits.extent);
  for (int64_t pages = least; pages <= kMaxPages; ++pages) {
    if (build.context % pages != 0) continue;
    build.cache_pages = pages;
    return {};
  }
  const int64_t rounded = (build.context + least - 1) / least * least;
  return fail(
      "plan.context",
      fmt::format("a cache of {} rows is not divisible into equal pages of at most {} rows, "
                  "the limit of target {}",
                  build.context, target.limits.extent, target.name),
      fmt::format("pass --context {}, which divides into {} pages", rounded, least));
}

}  // namespace

std::optional<Diagnostic> choose_mla_form(const ModelConfig& model, const Target& target,
                                          BuildOptions& build) {
  const bool given = build.mla == MlaForm::expanded;
  if (!model.attention.latent || target.limits.channels == 0 || given) return std::nullopt;
  const LatentConfig& latent = *model.attention.latent;
  const int64_t heads = model.attention.heads, shared = latent.shared_dims;
  // Channels of the widest tensor. In form latent: the queries. In form expanded: the queries or
  // the output of kv_b.
  const int64_t queries = heads * (shared + latent.kv_rank);
  const int64_t expanded = heads * (std::max(shared, latent.value_dims) + latent.key_dims);
  // Chooses form expanded only if form latent exceeds the limit and form expanded does not.
  if (queries <= target.limits.channels || expanded > target.limits.channels) return std::nullopt;
  build.mla = MlaForm::expanded;
  return Diagnostic{
      Severity::note,
      "plan.mla_form",
      fmt::format("chose --mla expanded, which caches keys and values per head: in form latent "
                  "queries have {} channels, target {} supports {}",
                  queries, target.name, target.limits.channels),
      "for the smaller cache of --mla latent, choose a target without this limit",
      {}};
}

CacheForm cache_form(const ModelConfig& model, CacheForm wanted) {
  return model.keeps_cache() ? wanted : CacheForm::none;
}

Status fit_to_target(const ModelConfig& model, const Target& target, BuildOptions& build) {
  if (build.head_slices == 0)
    build.head_slices = parts_within(model.logits(), target.limits.channels);
  build.cache = cache_form(model, build.cache);
  return updates_cache(build.cache) ? choose_pages(target, build) : Status();
}

}  // namespace moec
