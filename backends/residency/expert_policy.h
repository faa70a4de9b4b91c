// Policies of expert caches: the choice of the expert to evict from a full cache.
//
// A policy tracks the experts of one set of slots by key. Per-layer slots need one policy per
// layer; a pool shared by all layers needs only one. Keys contain the layer, so a policy works the
// same in both cases. A policy holds no weights, uses no locks and does not track the number of
// slots (expert_cache.h does).
//
// A step uses several experts together: one MoE layer's work for one token or a chunk of tokens.
// Experts of the current step are protected from eviction:
//
//   policy->begin_step(token);
//   for (ExpertId key : needed) policy->protect(key);
//   for (ExpertId key : needed)
//     if (policy->resident(key)) policy->hit(key);
//     else { if (full) slot_of(policy->evict()) …; policy->insert(key); }
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_id.h"

namespace moec {

// Counters of a resident expert, from its load to its eviction.
struct ResidentExpert {
  ExpertId key;
  int64_t count = 0;      // uses, including the one that loaded it
  int64_t last_step = 0;  // step of its latest use
  int64_t last_use = 0;   // rank of its latest use among all uses
  bool operator==(const ResidentExpert&) const = default;
};

enum class PolicyKind : uint8_t { lru, lfu, lcp, pinned };
constexpr auto enum_names(PolicyKind) {
  return name_table<PolicyKind>({"lru", "lfu", "lcp", "pinned"});
}

class ExpertPolicy {
 public:
  virtual ~ExpertPolicy() = default;

  // Begins a step and clears all protections. `step` counts tokens from 0 and never decreases; the
  // layers of a token call begin_step() separately with the same number.
  void begin_step(int64_t step);
  // Protects the expert from eviction until the next step begins, even if it is not resident yet.
  void protect(ExpertId key);

  bool resident(ExpertId key) const { return experts_.contains(key); }
  // Number of resident experts.
  int64_t size() const { return std::ssize(experts_); }
  // Records a use of a resident expert, and protects it.
  void hit(ExpertId key);
  // Adds an expert that was not resident, records its use, and protects it.
  void insert(ExpertId key);
  // Evicts the expert of least worth and discards its counters; ties go to the least recently used.
  // Absent if no resident expert may be evicted.
  std::optional<ExpertId> evict();

  int64_t step() const { return step_; }
  // Replaces the set of pinned experts, which are never evicted. Only PolicyKind::pinned uses it.
  virtual void pin(std::span<const ExpertId> pinned);

  // Returns the resident experts by key.
  std::vector<ResidentExpert> experts() const;
  // Continues from the experts of an earlier run, as parse_cache_state() returns them, at step
  // `step`. The policy must be empty.
  void restore(std::span<const ResidentExpert> experts, int64_t step);

 protected:
  // Worth of an expert; the least worth is evicted first. Absent for an expert that is never
  // evicted. Must depend only on the argument, so that it changes only when the expert is used.
  virtual std::optional<double> worth(const ResidentExpert& expert) const = 0;

  // Recomputes the ranks after the worth of experts changed for a reason other than a use.
  void rank_again();

 private:
  using Rank = std::tuple<double, int64_t, ExpertId>;  // worth, last_use, key

  std::optional<Rank> rank_of(const ResidentExpert& expert) const;
  void note_use(ResidentExpert expert);

  std::map<ExpertId, ResidentExpert> experts_;
  std::set<Rank> victims_;  // evictable experts in the order of eviction
  std::set<ExpertId> protected_;
  int64_t step_ = 0;
  int64_t uses_ = 0;
};

// lru     evicts the least recently used expert
// lfu     evicts the expert with the fewest uses since it was loaded
// lcp     evicts the expert with the lowest count · 0.25^((step − last_step) / 128)
// pinned  as lru, but never evicts an expert of `pinned`
std::unique_ptr<ExpertPolicy> make_policy(PolicyKind kind, std::span<const ExpertId> pinned = {});

}  // namespace moec
