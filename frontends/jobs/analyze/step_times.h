// How long steps of an export take here, with the engine of its session.
#pragma once

#include <functional>
#include <vector>

#include "backends/runtime/session/session.h"

namespace moec {

struct StepTime {
  int64_t tokens = 0;  // of the step: an exported width
  double seconds = 0;  // the median of the runs
  bool operator==(const StepTime&) const = default;
};

// Times the narrowest and the widest exported width; one of them where they are the same. Each
// runs once before it is timed, so that its shards are loaded where the session's memory holds
// them. The token ids are 0, 1, … of the vocabulary. Errors: those of Session::pass(), and of
// `stop`.
Result<std::vector<StepTime>> time_steps(Session& session, int64_t runs,
                                         const std::function<Status()>& stop);

// The middle one of the values in order; of an even number the mean of the middle two.
double median(std::vector<double> values);

}  // namespace moec
