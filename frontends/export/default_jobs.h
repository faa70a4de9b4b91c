// How many shards an export compiles at the same time if the user does not say.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moec {

// At least 1, at most 4: as many as the memory of the export, shared by `targets` targets, gives
// enough room for reading at the disk's speed. `plan_bytes` and `job_bytes` as for export_reader().
int default_jobs(uint64_t memory_bytes, size_t targets, uint64_t plan_bytes, uint64_t job_bytes);

}  // namespace moec
