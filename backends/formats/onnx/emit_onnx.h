// Emits a shard as ONNX files: one graph file per static token width, and one external data file
// that all widths share.
//
//   FOLDER/STEM.t1.onnx, …      the graph for one token, …
//   FOLDER/STEM.t1.k2.onnx, …   with several top-k variants: one graph per variant (GraphKey)
//   FOLDER/STEM.data            the weights; absent if there are none
// The data file contains every weight, regardless of its size, at a multiple of 64 KiB, in the
// order in which the ops first use the weights. Scales and zero points follow their codes.
// Constants are stored in the graph. The graphs state each weight's offset and length in the data
// file, and with OnnxOptions::checksum the file's SHA-1 (`checksum`, an optional key of ONNX). Uses
// opset 17, IR version 8, and onnxruntime's MatMulNBits for blockwise weights (write_onnx_codes.h).
// graph_writer.h documents the mapping of ops and names. The output is deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/emit/emit.h"
#include "backends/formats/onnx/onnx_options.h"

namespace moec {

// Mapping a single tensor requires this granularity on Windows; elsewhere a 4 KiB page is enough.
// See onnxruntime issue 21195.
inline constexpr uint64_t kOnnxDataAlignment = 64 * 1024;
// Scales and zero points are small; runtimes read them instead of mapping them.
inline constexpr DataFormat kOnnxData{.alignment = kOnnxDataAlignment, .parameters = 64};

// Returns the paths that emit_onnx() writes for these graphs, relative to the folder; the data file
// is last.
std::vector<std::string> onnx_file_names(const std::string& stem, std::span<const GraphKey> keys);

// Returns the views that emit_onnx() reads, in order; `experts` is EmitOptions::experts. Errors:
// those of check_emittable().
Result<std::vector<WeightView>> onnx_weight_views(std::span<const ShardWidth> widths,
                                                  const ExpertLayout& experts = {});

// All files are complete under temporary names before any gets its final name; a failure leaves
// none of them. Errors: emit.form, emit.state, emit.dtype, emit.constant, emit.port_name,
// emit.graph_too_large, and those of OutputFile and WeightReader.
Result<EmitReport> emit_onnx(std::span<const ShardWidth> widths, const WeightReader& weights,
                             const EmitOptions& options, const OnnxOptions& onnx = {});

}  // namespace moec
