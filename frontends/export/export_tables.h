// The tables of an export: embedding rows and RoPE rows, streamed to files of their own.
#pragma once

#include "backends/manifest/manifest.h"
#include "frontends/export/export_job.h"

namespace moec {

// Streams each target's embedding to OUT/NAME, those of the same bytes in one pass. `parts` is
// parallel to `jobs`.
Status export_embeddings(std::span<const ExportJob> jobs, std::vector<ExportedParts>& parts);

// Rows for positions 0 … context-1: r/2 cosines, then r/2 sines.
Result<manifest::RopeTable> export_rope(const ExportJob& job);

}  // namespace moec
