#include "frontends/export/export_model.h"

#include "frontends/export/target_exports.h"

namespace moec {

Result<std::vector<ExportSummary>> export_targets(std::span<const ExportOptions> targets) {
  MOEC_ASSIGN(TargetExports exports, TargetExports::open(targets));
  return std::move(exports).run();
}

Result<ExportSummary> export_model(const ExportOptions& options) {
  MOEC_ASSIGN(std::vector<ExportSummary> summaries, export_targets({&options, 1}));
  return std::move(summaries.front());
}

}  // namespace moec
