// Policies of caches of experts: which expert of a full cache leaves for one that is needed.
//
// A policy knows the experts of one set of slots by their keys. With a number of slots per layer
// there is one policy for each layer, and with one pool of slots for all layers a single one: keys
// have the layer, so that both are the same to it. It holds no weights, takes no locks and does not
// know how many slots there are; expert_cache.h does.
//
// A step is what computes with several experts at a time: one MoE layer and one token, or a chunk
// of tokens. The experts of the step under way are protected, they do not leave:
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

// What is known of an expert from when it came in to when it leaves.
struct ResidentExpert {
  ExpertId key;
  int64_t count = 0;      // uses; the one that it came in for is the first
  int64_t last_step = 0;  // of its latest use
  int64_t last_use = 0;   // the number of its latest use among all uses
  bool operator==(const ResidentExpert&) const = default;
};

enum class PolicyKind : uint8_t { lru, lfu, lcp, pinned };
constexpr auto enum_names(PolicyKind) {
  return name_table<PolicyKind>({"lru", "lfu", "lcp", "pinned"});
}

class ExpertPolicy {
 public:
  virtual ~ExpertPolicy() = default;

  // A step begins: protects nothing more. `step` counts tokens from 0 and never goes back; the
  // layers of a token, which are steps of their own, share it.
  void begin_step(int64_t step);
  // The expert does not leave before the next step begins, whether it is resident or not yet.
  void protect(ExpertId key);

  bool resident(ExpertId key) const { return experts_.contains(key); }
  // How many experts are resident.
  int64_t size() const { return std::ssize(experts_); }
  // A resident expert is used; protects it.
  void hit(ExpertId key);
  // An expert that is not resident comes in because it is used; protects it.
  void insert(ExpertId key);
  // The expert that the policy misses least leaves, with all that is known of it. Of equals the one
  // that was not used for longest leaves. Nothing where all that are resident have to stay.
  std::optional<ExpertId> evict();

  int64_t step() const { return step_; }
  // From now on these experts never leave, and those of earlier calls may; PolicyKind::pinned alone
  // looks at them.
  virtual void pin(std::span<const ExpertId> pinned);

  // What is resident, by key.
  std::vector<ResidentExpert> experts() const;
  // Takes experts over from an earlier run, of a policy that has none. They are those of
  // parse_cache_state(); `step` is that of the run.
  void restore(std::span<const ResidentExpert> experts, int64_t step);

 protected:
  // How much an expert is worth, the least of which leaves first; nothing for one that never
  // leaves. Depends on the expert alone, so that it changes only when the expert is used.
  virtual std::optional<double> worth(const ResidentExpert& expert) const = 0;

  // The worth of experts has changed otherwise than by their use.
  void rank_again();

 private:
  using Rank = std::tuple<double, int64_t, ExpertId>;  // worth, last_use, key

  std::optional<Rank> rank_of(const ResidentExpert& expert) const;
  void note_use(ResidentExpert expert);

  std::map<ExpertId, ResidentExpert> experts_;
  std::set<Rank> victims_;  // the experts that may leave, the first one first
  std::set<ExpertId> protected_;
  int64_t step_ = 0;
  int64_t uses_ = 0;
};

// lru     the expert that was not used for longest leaves
// lfu     the one with the fewest uses since it came in leaves
// lcp     the one with the least count · 0.25^((step − last_step) / 128) leaves
// pinned  those of `pinned` never leave, of the others that of lru
std::unique_ptr<ExpertPolicy> make_policy(PolicyKind kind, std::span<const ExpertId> pinned = {});

}  // namespace moec
