// Emits a shard as one TFLite file, which LiteRT runs.
//
//   FOLDER/STEM.tflite   a flatbuffer with one subgraph and one signature per graph, named t16, or
//                        t16_k2 for a top-k variant; after it the weights, shared by all graphs
// tflite_contents.h documents the file, subgraph_writer.h the mapping of ops and names. The output
// is deterministic.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/emit/emit.h"

namespace moec {

// Returns the only path that emit_tflite() writes, relative to the folder.
std::vector<std::string> tflite_file_names(const std::string& stem);

// Returns the views that emit_tflite() reads, in order; `experts` is EmitOptions::experts. Errors:
// those of check_tflite().
Result<std::vector<WeightView>> tflite_weight_views(std::span<const ShardWidth> widths,
                                                    const ExpertLayout& experts = {});

// The report lists the file both as the graph of each width and, if it contains weights, as the
// data file of their ranges. The file gets its final name when it is complete. Errors: those of
// check_tflite(), emit.graph_too_large, and those of OutputFile and WeightReader.
Result<EmitReport> emit_tflite(std::span<const ShardWidth> widths, const WeightReader& weights,
                               const EmitOptions& options);

}  // namespace moec
