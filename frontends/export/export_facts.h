// What the bytes of an export depend on, for its journal.
#pragma once

#include "backends/output/journal_text.h"
#include "frontends/export/export_model.h"

namespace moec {

// "moec": the version. "option --tokens", …: each flag that shapes the output, with defaults filled
// in. "file config.json", …: the text files by digest, each safetensors file by size, time of
// change and digest of its header. Errors: those of RegularFile and digest_file.
Result<ExportFacts> export_facts(const ExportOptions& options, const Plan& plan);

}  // namespace moec
