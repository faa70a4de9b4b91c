#include "frontends/export/export_job.h"

namespace moec {

Status ExportJob::check_not_stopped() const {
  if (options.callbacks.stop && options.callbacks.stop())
    return fail(kExportInterrupted, "the export was stopped", {}, {.file = options.output.folder});
  return journal.check_present();
}

Status ExportJob::complete_part(const JournalPart& part) const {
  MOEC_TRY(reader.check_unchanged());
  return journal.add(part);
}

}  // namespace moec
