// The payload of a weight file, for the emitters of all formats.
#pragma once

#include <functional>

#include "backends/emit/data_layout.h"
#include "backends/emit/emit.h"
#include "backends/files/output_file.h"

namespace moec {

// Writes what a format has before an entry's data. The file must then stand at entry.offset.
using BeginEntry = std::function<Status(const DataLayout::Entry& entry)>;

// The reader can deliver every weight of the layout, each with as many bytes as its type has, and
// an encoder can hold what it must of it. Reads no payload. Errors: those of WeightReader,
// encode.over_budget.
Status check_layout(const DataLayout& layout, const WeightReader& weights, size_t tile_bytes);

// Writes all entries in their order: literals as they are, weights tile by tile. Adds to `report`
// the tensors that it does not hold yet, their bytes, their ranges in the data file that is added
// next, and the bytes read; tells the callbacks in `options` of each tile. Errors: those of
// `begin`, OutputFile, WeightReader, WeightEncoder and options.on_progress.
Status write_weights(const DataLayout& layout, const WeightReader& weights,
                     const EmitOptions& options, const BeginEntry& begin, OutputFile& file,
                     EmitReport& report);

}  // namespace moec
