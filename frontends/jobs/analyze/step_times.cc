#include "frontends/jobs/analyze/step_times.h"

#include <algorithm>
#include <numeric>

#include "ir/base/seconds_since.h"

namespace moec {
namespace {

std::vector<int64_t> first_tokens(int64_t count, int64_t vocab) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = i % vocab;
  return tokens;
}

Result<StepTime> time_width(Session& session, int64_t width, int64_t runs,
                            const std::function<Status()>& stop) {
  const std::vector<int64_t> tokens = first_tokens(width, session.manifest().model.vocab);
  std::vector<double> seconds;
  for (int64_t run = 0; run <= runs; ++run) {
    MOEC_TRY(stop());
    session.reset();
    const Clock::time_point begin = Clock::now();
    MOEC_TRY(session.pass(tokens, 0));
    if (run > 0) seconds.push_back(seconds_since(begin));
  }
  return StepTime{width, median(std::move(seconds))};
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<std::vector<StepTime>> time_steps(Session& session, int64_t runs,
                                         const std::function<Status()>& stop) {
  const std::vector<int64_t>& widths = session.manifest().build.tokens;
  std::vector<StepTime> times;
  for (const int64_t width : {widths.front(), widths.back()}) {
    if (!times.empty() && times.back().tokens == width) break;
    MOEC_ASSIGN(StepTime time, time_width(session, width, runs, stop));
    times.push_back(time);
  }
  session.reset();
  return times;
}

}  // namespace moec
