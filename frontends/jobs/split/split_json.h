// The report of a split as JSON (ir/base/report_json.h), and the index in its folder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/split/split_report.h"

namespace moec {

// The source, the bytes of the trunk and of all files that are written, and of each node its
// experts, routing and files with their bytes; their digests where they are written.
nlohmann::ordered_json split_json(const SplitReport& report, double seconds);

// The text of split.json: the same of the source and its nodes, and whether all files are there.
std::string split_index_text(const SplitReport& report, bool finished);

}  // namespace moec
