// The tables of an export: embedding rows and RoPE rows, streamed to files of their own.
#pragma once

#include "backends/manifest/manifest.h"
#include "frontends/cli/export_job.h"

namespace moec {

// Streams the embedding to OUT/NAME; adds the bytes read to `bytes_read`.
Result<manifest::TableFile> export_embedding(const ExportJob& job, uint64_t& bytes_read);

// Rows for positions 0 … context-1: r/2 cosines, then r/2 sines.
Result<manifest::RopeTable> export_rope(const ExportJob& job);

}  // namespace moec
