#include "frontends/export/parallel_targets.h"

#include "backends/weights/views/shared_views.h"
#include "ir/base/refusals.h"

namespace moec {

void run_targets_in_parallel(std::span<const ExportJob> jobs,
                             std::vector<std::vector<WeightView>> views,
                             const std::function<void(size_t target, const ExportJob& job)>& work) {
  std::vector<SharedViews::Side> sides;
  for (size_t target = 0; target < jobs.size(); ++target)
    sides.push_back({&jobs[target].reader, std::move(views[target])});
  SharedViews shared(std::move(sides));
  const auto run = [&](size_t target) {
    const ExportJob& job = jobs[target];
    work(target, {job.options, job.plan, job.names, shared.reader(target), job.calibration,
                  job.encoder, job.journal, job.advance});
    // Also after a failure: the others must not wait for a target that has stopped reading.
    shared.leave(target);
  };
  std::vector<size_t> without_thread;
  ThreadGroup threads;
  for (size_t target = 1; target < jobs.size(); ++target)
    if (!threads.start([&, target] { run(target); })) {
      shared.leave(target);
      without_thread.push_back(target);
    }
  run(0);
  threads.join();
  for (const size_t target : without_thread) work(target, jobs[target]);
}

}  // namespace moec
