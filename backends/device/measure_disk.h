// Measures reads of a file: from start to end, and at random positions as the expert cache reads.
#pragma once

#include <vector>

#include "backends/device/median_seconds.h"
#include "backends/weights/views/payload_file.h"
#include "ir/target/device_profile.h"

namespace moec {

// Returns the rates of reads of several sizes, ascending, with as many threads and direct I/O as in
// an ExpertStore. Omits sizes that exceed the file. `repetition` applies to each size. Errors:
// weights.read; doctor.threads, doctor.memory (the system refuses them); doctor.interrupted.
Result<std::vector<RandomReads>> measure_random_reads(const PayloadFile& file,
                                                      const Repetition& repetition);

// Reads the whole file through the page cache, which contains it afterwards, and returns the rate.
// Error: weights.read.
Result<double> measure_sequential_reads(const PayloadFile& file);

}  // namespace moec
