// Exports GGUF files: weights without graphs. Each file is a part in the journal, so that a resumed
// export keeps complete files.
#pragma once

#include "frontends/export/export_summary.h"
#include "frontends/export/options/export_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Exports into options.output.folder, with the guarantees of export_model(): the files depend
// neither on the number of jobs nor on the memory, and manifest.json is written last. The folder
// may be resumed or replaced, and is locked until the function returns. Errors: those of
// plan_gguf_model(), LockedFolder, emit_gguf() and weight_values.h; export.interrupted. After a
// failure, the note export.unfinished states how many parts are kept.
Result<ExportSummary> export_gguf(const ExportOptions& options);

}  // namespace moec
