// The export of GGUF files: weights without graphs. Each file is a part of the journal, so that an
// export that is resumed keeps those that are complete.
#pragma once

#include "frontends/export/export_summary.h"
#include "frontends/export/options/export_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Exports into options.output.folder, as export_model() does: the files depend neither on the
// number of jobs nor on the memory, manifest.json is written last, the same folder may be resumed
// or replaced, and it is locked until the function returns. Errors: those of plan_gguf_model(), of
// LockedFolder, of emit_gguf() and of weight_values.h; export.interrupted, with the note
// export.unfinished.
Result<ExportSummary> export_gguf(const ExportOptions& options);

}  // namespace moec
