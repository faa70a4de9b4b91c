#include "ir/experts/expert_runs.h"

namespace moec {

std::vector<ExpertRun> runs_of(const std::vector<int64_t>& experts) {
  std::vector<ExpertRun> runs;
  for (const int64_t expert : experts)
    if (!runs.empty() && runs.back().first + runs.back().count == expert)
      ++runs.back().count;
    else
      runs.push_back({expert, 1});
  return runs;
}

}  // namespace moec
