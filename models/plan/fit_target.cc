#include "models/plan/fit_target.h"

#include <fmt/format.h>

namespace moec {
namespace {

int64_t parts_within(int64_t whole, int64_t limit) {
  return limit == 0 ? 1 : (whole + limit - 1) / limit;
}

// The fewest equal pages within the target's limit. Pages must be equal, because the pages of a
// cache are an axis of one tensor.
Status choose_pages(const Target& target, BuildOptions& build) {
  const int64_t least = parts_within(build.context, target.limits.extent);
  for (int64_t pages = least; pages <= kMostPages; ++pages) {
    if (build.context % pages != 0) continue;
    build.cache_pages = pages;
    return {};
  }
  const int64_t rounded = (build.context + least - 1) / least * least;
  return fail("plan.context",
              fmt::format("a cache of {} rows cannot be cut into equal pages of at most {} rows, "
                          "the most that target {} takes",
                          build.context, target.limits.extent, target.name),
              fmt::format("Use --context {}, which makes {} pages.", rounded, least));
}

}  // namespace

CacheForm cache_form(const ModelConfig& model, CacheForm wanted) {
  return model.keeps_cache() ? wanted : CacheForm::none;
}

Status fit_to_target(const ModelConfig& model, const Target& target, BuildOptions& build) {
  if (build.head_slices == 0)
    build.head_slices = parts_within(model.logits(), target.limits.channels);
  build.cache = cache_form(model, build.cache);
  return build.cache == CacheForm::blend ? choose_pages(target, build) : Status();
}

}  // namespace moec
