// Writes the payload of weight files, for the emitters of all formats.
#pragma once

#include <functional>

#include "backends/emit/data_layout.h"
#include "backends/emit/emit.h"
#include "backends/files/output_file.h"

namespace moec {

// Writes the format's lead-in of an entry. On return the file position must be entry.offset.
using BeginEntry = std::function<Status(const DataLayout::Entry& entry)>;

// Checks that the reader can deliver every weight of the layout with the byte count of its type,
// and that encoding fits the encoder's buffer. Reads no payload. Errors: those of WeightReader,
// encode.over_budget.
Status check_layout(const DataLayout& layout, const WeightReader& weights, size_t tile_bytes);

// Writes all entries in order: literals unchanged, weights tile by tile. Adds to `report` the
// tensors that are new to it, their bytes, their ranges in the next data file of the report, and
// the bytes read. Calls the callbacks of `options` for each tile. Errors: those of `begin`,
// OutputFile, WeightReader, WeightEncoder and options.on_progress.
Status write_weights(const DataLayout& layout, const WeightReader& weights,
                     const EmitOptions& options, const BeginEntry& begin, OutputFile& file,
                     EmitReport& report);

}  // namespace moec
