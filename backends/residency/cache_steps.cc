#include "backends/residency/cache_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/at.h"

namespace moec {
namespace {

// Returns, for each expert of each step, the index of the next step that needs it, or the number of
// steps if none does.
std::vector<std::vector<int64_t>> next_uses(std::span<const CacheStep> steps) {
  std::vector<std::vector<int64_t>> next(steps.size());
  std::map<ExpertId, int64_t> later;
  // Goes backwards, so that `later` maps each expert to its first use after step i.
  for (size_t i = steps.size(); i-- > 0;)
    for (const int64_t expert : steps[i].experts) {
      const auto [found, added] =
          later.try_emplace({steps[i].layer, expert}, static_cast<int64_t>(steps.size()));
      next[i].push_back(found->second);
      found->second = static_cast<int64_t>(i);
    }
  return next;
}

// Resident experts of Belady's policy, ordered by their next use.
class FarthestLeaves {
 public:
  // Removes the expert, so that shrink() cannot evict it during this step. Returns true if it was
  // resident.
  bool take(ExpertId key) {
    const auto found = next_of_.find(key);
    if (found == next_of_.end()) return false;
    by_next_.erase({found->second, key});
    next_of_.erase(found);
    return true;
  }
  void put(ExpertId key, int64_t next) {
    next_of_[key] = next;
    by_next_.insert({next, key});
  }
  // Keeps the `most` experts with the soonest next uses.
  void shrink(int64_t most) {
    while (std::ssize(next_of_) > most) {
      next_of_.erase(by_next_.rbegin()->second);
      by_next_.erase(std::prev(by_next_.end()));
    }
  }

 private:
  std::map<ExpertId, int64_t> next_of_;
  // The key breaks ties between experts that no later step needs, so the victim is deterministic.
  std::set<std::pair<int64_t, ExpertId>> by_next_;
};

// Returns 1 if `all` is 0, because no use missed.
double rate(int64_t part, int64_t all) {
  return all == 0 ? 1 : static_cast<double>(part) / static_cast<double>(all);
}

// Describes the step as one token. Its experts are hits unless they were loaded.
ChosenStep one_token(const CacheStep& step, int64_t loads) {
  ChosenStep chosen{step.layer, 1, {}, std::ssize(step.experts) - loads};
  for (const int64_t expert : step.experts) chosen.chosen.push_back({expert, 1});
  return chosen;
}

int64_t count_first_uses(std::span<const CacheStep> steps) {
  std::set<ExpertId> seen;
  for (const CacheStep& step : steps)
    for (const int64_t expert : step.experts) seen.insert({step.layer, expert});
  return std::ssize(seen);
}

}  // namespace

double CacheCounts::hit_rate() const { return rate(hits(), uses); }
double CacheCounts::warm_rate() const { return rate(hits(), uses - first_uses); }

std::vector<CacheStep> cache_steps(std::span<const TraceRow> rows, int64_t tokens) {
  // The order of the map is the execution order. The set removes duplicates among the tokens of a
  // chunk, because a step loads an expert once.
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> needed;  // key: (chunk, layer)
  for (const TraceRow& row : rows) needed[{row.token / tokens, row.layer}].insert(row.expert);
  std::vector<CacheStep> steps;
  for (const auto& [key, experts] : needed)
    steps.push_back({key.first, key.second, {experts.begin(), experts.end()}});
  return steps;
}

int64_t largest_step(std::span<const CacheStep> steps) {
  int64_t largest = 0;
  for (const CacheStep& step : steps) largest = std::max(largest, std::ssize(step.experts));
  return largest;
}

Result<CacheCounts> simulate_policy(std::span<const CacheStep> steps, PolicyKind kind,
                                    CacheSlots slots, std::span<const ExpertId> pinned,
                                    std::vector<DomainChange>* changes) {
  ExpertCache cache(kind, slots, pinned);
  HitWindow window;
  CacheCounts counts{.first_uses = count_first_uses(steps)};
  for (const CacheStep& step : steps) {
    MOEC_ASSIGN(const auto loads, cache.use(step.step, step.layer, step.experts));
    const auto change = window.note(one_token(step, std::ssize(loads)));
    if (change && changes) changes->push_back(*change);
    counts.uses += std::ssize(step.experts);
    counts.loads += std::ssize(loads);
  }
  return counts;
}

Result<CacheCounts> simulate_belady(std::span<const CacheStep> steps, CacheSlots slots) {
  if (largest_step(steps) > slots.slots)
    return fail("residency.slots",
                fmt::format("a step needs {} experts, but there are {} slots", largest_step(steps),
                            slots.slots),
                "use more slots, or fewer tokens per step");
  const auto next = next_uses(steps);
  CacheCounts counts{.first_uses = count_first_uses(steps)};
  std::map<int64_t, FarthestLeaves> caches;  // by layer; a pool uses key 0
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto& [chunk, layer, experts] = steps[i];
    FarthestLeaves& cache = caches[slots.pool ? 0 : layer];
    for (const int64_t expert : experts)
      if (!cache.take({layer, expert})) ++counts.loads;
    // The step's experts are outside the cache here, so only others are evicted. The check of
    // largest_step() ensures that the argument is not negative.
    cache.shrink(slots.slots - std::ssize(experts));
    for (size_t e = 0; e < experts.size(); ++e) cache.put({layer, experts[e]}, next[i][e]);
    counts.uses += std::ssize(experts);
  }
  return counts;
}

}  // namespace moec
