// What `moec export` says when it is done.
#pragma once

#include <span>
#include <string>

#include "frontends/export/export_model.h"

namespace moec {

// Of one target or several; `out` is the --out of all, `seconds` the time that they took together.
struct FinishedExport {
  const std::string& out;
  std::span<const ExportOptions> targets;
  std::span<const ExportSummary> summaries;  // parallel to `targets`
  double seconds = 0;
};

void print_export(const FinishedExport& finished, bool quiet);
void print_export_json(const FinishedExport& finished);

}  // namespace moec
