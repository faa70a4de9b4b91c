// Emits a shard as ONNX files: one graph file for each static token width, and one external data
// file that all widths share.
//
//   FOLDER/STEM.t1.onnx, …      the graph for one token, …
//   FOLDER/STEM.t1.k2.onnx, …   the same where several graphs take as many tokens (GraphKey)
//   FOLDER/STEM.data            the weights; absent when there are none
//
// Every weight lies in the data file, however small, at an offset that is a multiple of 64 KiB, in
// the order in which the ops first use it; the scales and zeros of its codes, if any, follow them.
// Constants lie in the graph. The graphs name each weight's offset and length in the data file, and
// with OnnxOptions::checksum the file's SHA-1
// (`checksum`, an optional key of ONNX). Opset 17, IR version 8, and onnxruntime's
// MatMulNBits for weights in blocks (encoded_weights.h). graph_writer.h documents how ops and names
// map. The same shard gives the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/emit/emit.h"
#include "backends/formats/onnx/onnx_options.h"

namespace moec {

// Memory-mapping a tensor by itself needs this granularity on Windows (64 KiB; elsewhere a page of
// 4 KiB is enough). See onnxruntime issue 21195.
inline constexpr uint64_t kOnnxDataAlignment = 64 * 1024;
// Scales and zeros are small, and are read rather than mapped.
inline constexpr DataFormat kOnnxData{.alignment = kOnnxDataAlignment, .parameters = 64};

// The paths, relative to the folder, that emit_onnx writes for these graphs; the data file last.
std::vector<std::string> onnx_file_names(const std::string& stem, std::span<const GraphKey> keys);

// The views that emit_onnx() asks its reader for, in that order, with EmitOptions::experts. Errors:
// those about the shard.
Result<std::vector<WeightView>> onnx_weight_views(std::span<const ShardWidth> widths,
                                                  const ExpertLayout& experts = {});

// All files are complete under temporary names before the first one gets its final name; after a
// failure none of them remains. Errors: emit.form, emit.state, emit.dtype, emit.constant,
// emit.port_name, emit.graph_too_large, and those of OutputFile and WeightReader.
Result<EmitReport> emit_onnx(std::span<const ShardWidth> widths, const WeightReader& weights,
                             const EmitOptions& options, const OnnxOptions& onnx = {});

}  // namespace moec
