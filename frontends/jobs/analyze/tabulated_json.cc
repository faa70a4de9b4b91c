#include "frontends/jobs/analyze/tabulated_json.h"

#include <nlohmann/json.hpp>

#include "frontends/jobs/analyze/analysis_json.h"
#include "ir/base/report_json.h"

namespace moec {

nlohmann::ordered_json tabulated_json(const TabulatedModel& tabulated, const std::string& folder) {
  nlohmann::ordered_json fields = {{"out", folder}};
  if (tabulated.analysis) {
    fields = analysis_json(*tabulated.analysis, folder);
    // report_json() below adds these fields again, with the notes of the table.
    fields.erase("ok");
    fields.erase("diagnostics");
  }
  fields["table"] = table_json(tabulated.table);
  return report_json(true, fields, tabulated.notes);
}

}  // namespace moec
