#include "frontends/export/export_model.h"

#include <algorithm>

#include "backends/formats/format.h"
#include "frontends/export/export_gguf.h"
#include "frontends/export/target_exports.h"

namespace moec {

namespace {

bool has_graphs(const ExportOptions& options) {
  return format_of(options.compile.passes.target.format).shape == FormatShape::graphs;
}

}  // namespace

Result<std::vector<ExportSummary>> export_targets(std::span<const ExportOptions> targets) {
  if (!std::all_of(targets.begin(), targets.end(), has_graphs)) {
    if (targets.size() > 1)
      return fail("export.flags", "files of weights are not written together with other targets",
                  "export for each target alone");
    MOEC_ASSIGN(ExportSummary summary, export_gguf(targets.front()));
    return std::vector<ExportSummary>{std::move(summary)};
  }
  MOEC_ASSIGN(TargetExports exports, TargetExports::open(targets));
  return std::move(exports).run();
}

Result<ExportSummary> export_model(const ExportOptions& options) {
  MOEC_ASSIGN(std::vector<ExportSummary> summaries, export_targets({&options, 1}));
  return std::move(summaries.front());
}

}  // namespace moec
