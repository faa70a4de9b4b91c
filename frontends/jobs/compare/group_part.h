// Reports of `moec compare --part`, as another process reads them.
#pragma once

#include <string>
#include <vector>

#include "frontends/jobs/compare/group_report.h"

namespace moec {

// Returns the scores of the documents in the report of a part, [group][document]; all groups have
// the same documents. `report` has the window, inputs and groups of this run, which those of the
// file must equal. `documents` is the number of all documents. Errors: compare.part (the file is
// not such a report), compare.part_differs.
Result<std::vector<std::vector<DocumentScore>>> read_group_part(const std::string& path,
                                                                const GroupReport& report,
                                                                int64_t documents);

}  // namespace moec
