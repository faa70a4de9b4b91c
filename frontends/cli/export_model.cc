#include "frontends/cli/export_model.h"

#include "frontends/cli/export_tables.h"
#include "frontends/cli/target_export.h"

namespace moec {

static Result<ExportedParts> export_parts(const ExportJob& job) {
  ExportedParts parts;
  MOEC_ASSIGN(parts.embedding, export_embedding(job, parts.table_bytes_read));
  if (job.plan.model.attention.rope.style != RopeStyle::none) {
    MOEC_ASSIGN(parts.rope, export_rope(job));
  }
  MOEC_ASSIGN(parts.shards, export_shards(job));
  return parts;
}

Result<ExportSummary> export_model(const ExportOptions& options) {
  MOEC_ASSIGN(const ReaderOptions reading, export_reader(options.memory_bytes, options.jobs));
  MOEC_ASSIGN(PlannedExport planned, plan_export(options, reading));
  TargetExport target(options, std::move(planned));
  MOEC_TRY(target.take_folder());
  MOEC_TRY(target.begin());
  Progress progress("export", target.payload_bytes(), options.quiet);
  auto parts = export_parts(target.job(progress));
  progress.finish();
  if (!parts) {
    target.note_finished(parts.error());
    return fail(std::move(parts.error()));
  }
  MOEC_TRY(target.finish(std::move(*parts)));
  MOEC_TRY(target.remove_journal());
  return target.take_summary();
}

}  // namespace moec
