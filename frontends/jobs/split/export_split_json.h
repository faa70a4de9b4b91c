// The report of a split of an export as JSON (ir/base/report_json.h), and the index in its
// folder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/split/export_split_report.h"

namespace moec {

// The source, the bytes of the trunk and of all that the nodes hold, and of each node its layers,
// experts and files with their bytes and digests.
nlohmann::ordered_json split_json(const ExportSplit& split, double seconds);

// The text of split.json: the same of the nodes, and whether all files are there.
std::string export_index_text(const ExportSplit& split, bool finished);

}  // namespace moec
