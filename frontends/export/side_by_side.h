// Targets of an export at work on the same part of the model, reading together.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "frontends/export/export_job.h"

namespace moec {

// Runs `work` for each target, each on a thread of its own, and waits for all. A job's reader
// shares what it reads with those of the others (backends/weights/shared_views.h): `views`,
// parallel to `jobs`, are those that the work will ask for.
void work_side_by_side(std::span<const ExportJob> jobs, std::vector<std::vector<WeightView>> views,
                       const std::function<void(size_t target, const ExportJob& job)>& work);

}  // namespace moec
