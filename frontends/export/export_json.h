// Writes the summary of an export as JSON (ir/base/report_json.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "frontends/export/export_summary.h"
#include "frontends/export/options/export_options.h"

namespace moec {

// A finished export for one target or several.
struct FinishedExport {
  const std::string& out;  // output folder; with several targets, the parent of their folders
  std::span<const ExportOptions> targets;
  std::span<const ExportSummary> summaries;  // parallel to `targets`
  double seconds = 0;                        // for all targets together
};

// Returns folder, counts, bytes and seconds; for several targets, also the list of their reports
// and the bytes read for all of them.
nlohmann::ordered_json export_json(const FinishedExport& finished);

// Bytes read from the checkpoint for all targets together.
uint64_t bytes_read(std::span<const ExportSummary> summaries);

}  // namespace moec
