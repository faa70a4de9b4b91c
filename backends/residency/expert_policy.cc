#include "backends/residency/expert_policy.h"

#include <algorithm>
#include <cmath>

#include "ir/base/invariant.h"

namespace moec {
namespace {

class LeastRecentlyUsed : public ExpertPolicy {
 protected:
  // All experts have the same worth, so Rank orders them by `last_use`.
  std::optional<double> worth(const ResidentExpert&) const override { return 0; }
};

class LeastFrequentlyUsed : public ExpertPolicy {
 protected:
  std::optional<double> worth(const ResidentExpert& expert) const override {
    return static_cast<double>(expert.count);
  }
};

// log2 of count · 0.25^((step − last_step) / 128) is log2(count) + last_step/64 − step/64. The last
// term is equal for all experts and is omitted: the order then does not depend on the step, and no
// worth underflows.
class LeastCachePriority : public ExpertPolicy {
 protected:
  std::optional<double> worth(const ResidentExpert& expert) const override {
    return std::log2(static_cast<double>(expert.count)) +
           static_cast<double>(expert.last_step) / 64;
  }
};

class Pinned : public ExpertPolicy {
 public:
  explicit Pinned(std::span<const ExpertId> pinned) : pinned_(pinned.begin(), pinned.end()) {}

  void pin(std::span<const ExpertId> pinned) override {
    pinned_ = {pinned.begin(), pinned.end()};
    rank_again();
  }

 protected:
  std::optional<double> worth(const ResidentExpert& expert) const override {
    if (pinned_.contains(expert.key)) return std::nullopt;
    return 0;
  }

 private:
  std::set<ExpertId> pinned_;
};

}  // namespace

void ExpertPolicy::begin_step(int64_t step) {
  MOEC_CHECK(step >= step_, "steps must not go back");
  step_ = step;
  protected_.clear();
}

void ExpertPolicy::protect(ExpertId key) { protected_.insert(key); }

void ExpertPolicy::hit(ExpertId key) {
  const auto found = experts_.find(key);
  MOEC_CHECK(found != experts_.end(), "only a resident expert can be hit");
  // The counters are unchanged since the rank was inserted, so rank_of() returns the same rank.
  if (const auto rank = rank_of(found->second)) victims_.erase(*rank);
  note_use(found->second);
}

void ExpertPolicy::insert(ExpertId key) {
  MOEC_CHECK(!resident(key), "a resident expert cannot be inserted again");
  note_use({.key = key});
}

void ExpertPolicy::note_use(ResidentExpert expert) {
  ++expert.count;
  expert.last_step = step_;
  expert.last_use = ++uses_;
  if (const auto rank = rank_of(expert)) victims_.insert(*rank);
  protect(expert.key);
  experts_[expert.key] = expert;
}

std::optional<ExpertId> ExpertPolicy::evict() {
  for (auto rank = victims_.begin(); rank != victims_.end(); ++rank) {
    const ExpertId key = std::get<ExpertId>(*rank);
    // Skips protected experts but keeps their ranks, because the protection ends with the step.
    if (protected_.contains(key)) continue;
    victims_.erase(rank);
    experts_.erase(key);
    return key;
  }
  return std::nullopt;
}

void ExpertPolicy::pin(std::span<const ExpertId>) {}

void ExpertPolicy::rank_again() {
  // Newly pinned experts are no longer victims, and unpinned experts become victims again.
  victims_.clear();
  for (const auto& [key, expert] : experts_)
    if (const auto rank = rank_of(expert)) victims_.insert(*rank);
}

std::optional<ExpertPolicy::Rank> ExpertPolicy::rank_of(const ResidentExpert& expert) const {
  const auto value = worth(expert);
  if (!value) return std::nullopt;
  return Rank{*value, expert.last_use, expert.key};
}

std::vector<ResidentExpert> ExpertPolicy::experts() const {
  std::vector<ResidentExpert> all;
  for (const auto& [key, expert] : experts_) all.push_back(expert);
  return all;
}

void ExpertPolicy::restore(std::span<const ResidentExpert> experts, int64_t step) {
  MOEC_CHECK(experts_.empty(), "only an empty policy can restore experts");
  step_ = step;
  for (const ResidentExpert& expert : experts) {
    experts_[expert.key] = expert;
    if (const auto rank = rank_of(expert)) victims_.insert(*rank);
    // Later uses must have a larger `last_use` than all restored experts.
    uses_ = std::max(uses_, expert.last_use);
  }
}

std::unique_ptr<ExpertPolicy> make_policy(PolicyKind kind, std::span<const ExpertId> pinned) {
  switch (kind) {
    case PolicyKind::lru:
      return std::make_unique<LeastRecentlyUsed>();
    case PolicyKind::lfu:
      return std::make_unique<LeastFrequentlyUsed>();
    case PolicyKind::lcp:
      return std::make_unique<LeastCachePriority>();
    case PolicyKind::pinned:
      return std::make_unique<Pinned>(pinned);
  }
  return nullptr;
}

}  // namespace moec
