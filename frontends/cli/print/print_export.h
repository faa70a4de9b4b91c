// What `moec export` prints when it is done, for people and as JSON.
#pragma once

#include <span>
#include <string>

#include "frontends/export/export_options.h"
#include "frontends/export/export_summary.h"

namespace moec {

// A finished export for one target or several.
struct FinishedExport {
  const std::string& out;  // --out
  std::span<const ExportOptions> targets;
  std::span<const ExportSummary> summaries;  // parallel to `targets`
  double seconds = 0;                        // for all targets together
};

void print_export(const FinishedExport& finished, bool quiet);
void print_export_json(const FinishedExport& finished);

}  // namespace moec
