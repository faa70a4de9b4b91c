// The experts of a part of a layer: a run that starts at first_expert, or the list expert_ids.
// `part` is a ShardDecl or the manifest's Shard.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

namespace moec {

// Experts [first, first + count).
struct ExpertRun {
  int64_t first = 0, count = 0;
  auto operator<=>(const ExpertRun&) const = default;
};

// Returns the fewest runs that cover exactly these experts, which must be ascending.
std::vector<ExpertRun> runs_of(const std::vector<int64_t>& experts);

// The experts of the part, as runs.
template <class Part>
std::vector<ExpertRun> expert_runs(const Part& part) {
  if (part.expert_ids.empty()) return {{part.first_expert, part.experts}};
  return runs_of(part.expert_ids);
}

template <class Part>
bool holds_expert(const Part& part, int64_t expert) {
  if (part.expert_ids.empty())
    return expert >= part.first_expert && expert - part.first_expert < part.experts;
  return std::binary_search(part.expert_ids.begin(), part.expert_ids.end(), expert);
}

// Sets the experts of the part. `experts` must be non-empty and ascending. Leaves expert_ids empty
// if they form one run.
template <class Part>
void set_experts(Part& part, std::vector<int64_t> experts) {
  part.first_expert = experts.front();
  part.experts = static_cast<int64_t>(experts.size());
  part.expert_ids.clear();
  if (experts.back() - experts.front() + 1 != part.experts) part.expert_ids = std::move(experts);
}

}  // namespace moec
