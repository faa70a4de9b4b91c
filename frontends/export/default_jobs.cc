#include "frontends/export/default_jobs.h"

#include "backends/weights/views/weight_reader.h"

namespace moec {

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
