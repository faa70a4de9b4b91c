#include "frontends/export/export_job.h"

namespace moec {

Status ExportJob::check_not_stopped() const {
  if (options.callbacks.stop && options.callbacks.stop())
    return fail(kExportInterrupted, "the export was stopped", {}, {.file = options.output.folder});
  // If the journal is gone, complete parts may be gone too, so further work is useless.
  return journal.check_present();
}

Status ExportJob::complete_part(const JournalPart& part) const {
  // Views are streamed one after another. Only a check after the last view proves that no file
  // changed between them.
  MOEC_TRY(reader.check_unchanged());
  return journal.add(part);
}

}  // namespace moec
