// The contents of a TFLite file: a flatbuffer, then weights at multiples of 64 KiB. Buffers state
// their offset and size in the file, so a file may exceed the 2 GiB of a flatbuffer. Constants and
// scales per row are inside the flatbuffer; scales are computed before the codes, so weights with
// such scales are read twice.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/emit/emit.h"
#include "backends/files/output_file.h"
#include "ir/graph/shard.h"

namespace moec {

class ModelWriter;

inline constexpr uint64_t kTfliteDataAlignment = 64 * 1024;

// Lists what a file contains.
struct TfliteSource {
  std::vector<const Shard*> shards;  // whose weights are stored; each passed check_tflite()
  ExpertLayout experts;
  // Adds entries that are not weights of shards.
  std::function<void(DataLayout& layout)> add_tables = nullptr;
  // Writes the graphs and finishes the model. The result's size must not depend on offsets.
  std::function<std::string(const DataLayout& layout, ModelWriter& model)> write_model = nullptr;
};

struct TfliteContents {
  uint64_t begin = 0;  // position of the model in the file, a multiple of kTfliteDataAlignment
  DataLayout scales;   // inside `model`
  DataLayout weights;  // after it
  std::string model;   // the flatbuffer, with zeros as scales
  uint64_t end() const { return std::max(weights.file_bytes(), begin + model.size()); }
};

// Fails with emit.graph_too_large if the constants of the shards, which are inside the flatbuffer,
// have more bytes than a flatbuffer can hold.
Status check_constant_bytes(const std::vector<const Shard*>& shards, const FileLimits& limits,
                            const std::string& path);

TfliteContents lay_out_contents(const TfliteSource& source, uint64_t begin = 0);

// Returns the views that write_contents() reads, in order.
std::vector<WeightView> views_of(const TfliteSource& source);

// Writes the contents from position `begin` on, which must be the file's position. Errors: those of
// write_weights().
Status write_contents(const TfliteContents& contents, const WeightReader& weights,
                      const EmitOptions& options, OutputFile& file, EmitReport& report);

}  // namespace moec
