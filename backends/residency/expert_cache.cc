#include "backends/residency/expert_cache.h"

#include <fmt/format.h>

namespace moec {

ExpertCache::ExpertCache(PolicyKind kind, CacheSlots slots, std::span<const ExpertId> pinned)
    : kind_(kind), slots_(slots), pinned_(pinned.begin(), pinned.end()) {}

ExpertPolicy& ExpertCache::policy_of(int64_t layer) {
  auto& policy = policies_[slots_.pool ? 0 : layer];
  if (!policy) policy = make_policy(kind_, pinned_);
  return *policy;
}

bool ExpertCache::resident(ExpertId key) const {
  // A layer that has not run has no policy, so none of its experts is resident.
  const auto policy = policies_.find(slots_.pool ? 0 : key.layer);
  return policy != policies_.end() && policy->second->resident(key);
}

Result<std::vector<ExpertLoad>> ExpertCache::use(int64_t step, int64_t layer,
                                                 std::span<const int64_t> experts) {
  ExpertPolicy& policy = policy_of(layer);
  policy.begin_step(step);
  // Protects all experts before the first insertion, so that no insertion evicts an expert that
  // this step still needs.
  for (const int64_t expert : experts) policy.protect({layer, expert});
  std::vector<ExpertLoad> loads;
  for (const int64_t expert : experts) {
    const ExpertId key{layer, expert};
    if (policy.resident(key)) {
      policy.hit(key);
      continue;
    }
    ExpertLoad load{key, std::nullopt};
    if (policy.size() >= slots_.slots) {
      load.evicted = policy.evict();
      // The experts inserted so far stay resident, so the cache remains usable after this error.
      // FirstSteps::note() relies on this.
      if (!load.evicted)
        return fail("residency.slots",
                    fmt::format("a step needs {} experts of layer {}, but pinned experts leave too "
                                "few of the {} slots",
                                experts.size(), layer, slots_.slots),
                    "use more slots or fewer tokens per step, or pin fewer experts");
    }
    policy.insert(key);
    loads.push_back(load);
  }
  return loads;
}

}  // namespace moec
