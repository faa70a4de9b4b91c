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
  // Outlives the threads, which are joined below.
  SharedViews shared(std::move(sides));
  const auto run = [&](size_t target) {
    const ExportJob& job = jobs[target];
    work(target, {job.options, job.plan, job.names, shared.reader(target), job.calibration,
                  job.encoder, job.journal, job.advance, job.packages, job.workers, job.decoder});
    // Also called after a failure. Otherwise, the other targets would wait for one that stopped
    // reading.
    shared.leave(target);
  };
  std::vector<size_t> without_thread;
  ThreadGroup threads;
  for (size_t target = 1; target < jobs.size(); ++target)
    // If the thread does not start, the target leaves the sharing. Otherwise, the other targets
    // would wait for it forever.
    if (!threads.start([&, target] { run(target); })) {
      shared.leave(target);
      without_thread.push_back(target);
    }
  // The calling thread exports the first target, so a single target needs no thread.
  run(0);
  threads.join();
  // Targets without a thread run last, each with its own reader. The bytes are the same.
  for (const size_t target : without_thread) work(target, jobs[target]);
}

// Several jobs keep the disk busy while one compiles or flushes. Fraction of the throughput of a
// disk that is read and written at once: 2 jobs 0.82, 3 jobs 0.92, 4 and 6 jobs 0.95. Measured with
// 4 GB to ONNX, medians of four rounds. Fewer jobs run if each would have too little memory to read
// at disk speed.
int default_jobs(uint64_t memory_bytes, size_t targets, uint64_t plan_bytes, uint64_t job_bytes) {
  constexpr int kMaxJobs = 4;
  constexpr uint64_t kEnoughBytes = uint64_t{16} << 20;
  for (int jobs = kMaxJobs; jobs > 1; --jobs)
    if (const auto reading =
            export_reader(memory_bytes, jobs * static_cast<int>(targets), plan_bytes, job_bytes);
        reading && reading->memory_bytes >= kEnoughBytes)
      return jobs;
  return 1;
}

}  // namespace moec
