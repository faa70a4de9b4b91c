// Runs the targets of one export in parallel, so that they share the weights that they read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "frontends/export/export_job.h"

namespace moec {

// Runs `work` for every target, each on its own thread, and waits for all. The job passed to `work`
// has a reader that shares its bytes with the other targets
// (backends/weights/views/shared_views.h). `views` is parallel to `jobs` and lists the views that
// `work` will read, in order.
void run_targets_in_parallel(std::span<const ExportJob> jobs,
                             std::vector<std::vector<WeightView>> views,
                             const std::function<void(size_t target, const ExportJob& job)>& work);

// Default number of shards that an export compiles at the same time, from 1 to 4. The largest
// number that leaves each job enough memory to read at disk speed, with the memory shared by
// `targets` targets. `plan_bytes` and `job_bytes` are those of export_reader().
int default_jobs(uint64_t memory_bytes, size_t targets, uint64_t plan_bytes, uint64_t job_bytes);

}  // namespace moec
