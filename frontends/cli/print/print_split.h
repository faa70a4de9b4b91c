// What `moec split` prints for people.
#pragma once

#include "frontends/jobs/split/export_split_report.h"
#include "frontends/jobs/split/split_report.h"

namespace moec {

// A line for each node with its experts and bytes, and the bytes of all.
void print_split(const SplitReport& report, double seconds);
void print_split(const ExportSplit& split, double seconds);

}  // namespace moec
