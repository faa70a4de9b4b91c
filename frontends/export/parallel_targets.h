// Targets of one export that write the same part of the model at the same time and share what they
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "frontends/export/export_job.h"

namespace moec {

// Runs `work` for every target, each on a thread of its own, and waits for all. The reader of the
// job that `work` gets shares the bytes that it reads with those of the other targets
// (backends/weights/views/shared_views.h). `views` is parallel to `jobs`: the views that the work
// will read, in that order.
void run_targets_in_parallel(std::span<const ExportJob> jobs,
                             std::vector<std::vector<WeightView>> views,
                             const std::function<void(size_t target, const ExportJob& job)>& work);

// How many shards an export compiles at the same time if the user does not say.

// At least 1, at most 4: as many as the memory of the export, shared by `targets` targets, gives
// enough room for reading at the disk's speed. `plan_bytes` and `job_bytes` as for export_reader().
int default_jobs(uint64_t memory_bytes, size_t targets, uint64_t plan_bytes, uint64_t job_bytes);

}  // namespace moec
