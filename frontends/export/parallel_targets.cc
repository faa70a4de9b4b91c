#include "frontends/export/parallel_targets.h"

#include "backends/weights/views/shared_views.h"
#include "backends/weights/views/weight_reader.h"
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

// Several shards at a time keep the disk busy while one of them begins or is flushed. Of the
// throughput of a disk that is read and written at once, 2 jobs reached 0.82, 3 jobs 0.92, 4 and 6
// jobs 0.95 (4 GB to ONNX, medians of four rounds). There are fewer where each would get too little
// memory to read at speed.
int default_jobs(uint64_t memory_bytes, size_t targets, uint64_t plan_bytes, uint64_t job_bytes) {
  constexpr int kMostJobs = 4;
  constexpr uint64_t kEnoughBytes = uint64_t{16} << 20;
  for (int jobs = kMostJobs; jobs > 1; --jobs)
    if (const auto reading =
            export_reader(memory_bytes, jobs * static_cast<int>(targets), plan_bytes, job_bytes);
        reading && reading->memory_bytes >= kEnoughBytes)
      return jobs;
  return 1;
}

}  // namespace moec
