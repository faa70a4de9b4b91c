// Emits a shard as ONNX files: one graph file for each static token width, and one external data
// file that all widths share.
//
//   FOLDER/STEM.onnx            one width
//   FOLDER/STEM.t1.onnx, …      several widths
//   FOLDER/STEM.data            the weights; absent when there are none
//
// Every weight lies in the data file, however small, at an offset that is a multiple of 64 KiB, in
// the order in which the ops first use it. Constants lie in the graph. The graphs name the data
// file's offset, length and SHA-1 (ONNX's `checksum`). Opset 17, IR version 8; how ops and names
// map is said in graph_writer.h. Same shard, same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/weights/weight_reader.h"
#include "ir/diagnostics.h"
#include "ir/shard.h"

namespace moec {

// The shard compiled for one number of tokens.
struct ShardWidth {
  int64_t tokens = 0;
  const Shard* shard = nullptr;  // in form `placed`
};

struct EmitOptions {
  std::string folder;  // created when missing
  std::string stem;    // relative path without extension: "moe/L00.g1"
  std::string family;  // for the model's description; may be empty
  size_t tile_bytes = kDefaultTileBytes;
  // Protobuf cannot hold a message of 2 GiB.
  uint64_t graph_byte_limit = (uint64_t{1} << 31) - 1;
  // Told the number of payload bytes each time some were written.
  std::function<void(uint64_t bytes)> on_progress;
};

struct EmittedFile {
  std::string path;    // relative to the folder: "moe/L00.g1.t16.onnx"
  int64_t tokens = 0;  // of a graph file
  uint64_t bytes = 0;
  std::string digest;  // xxh3-128, 32 lower-case hex digits
  bool operator==(const EmittedFile&) const = default;
};

// A weight in the data file.
struct EmittedTensor {
  std::string name;  // of its initializer
  std::string view;  // its text
  uint64_t offset = 0, bytes = 0;
  uint64_t overflows = 0;  // finite values that a cast made infinite
  uint64_t nans = 0;
  bool operator==(const EmittedTensor&) const = default;
};

struct EmitReport {
  std::vector<EmittedFile> graphs;  // in the order of the widths
  std::optional<EmittedFile> data;
  std::string data_sha1;  // empty without a data file
  std::vector<EmittedTensor> tensors;
  uint64_t weight_bytes = 0;  // without the gaps
  uint64_t bytes_read = 0;    // of the checkpoint
  uint64_t overflows() const;
};

// The paths, relative to the folder, that emit_onnx writes for these widths; the data file last.
std::vector<std::string> onnx_file_names(const std::string& stem, std::span<const int64_t> tokens);

// All files are complete under temporary names before the first one gets its final name; on failure
// none of them stays. Errors: emit.form, emit.state, emit.dtype, emit.constant, emit.port_name,
// emit.graph_too_large, emit.no_space, emit.no_permission, emit.bad_folder, emit.write_failed, and
// those of WeightReader.
Result<EmitReport> emit_onnx(std::span<const ShardWidth> widths, const WeightReader& weights,
                             const EmitOptions& options);

}  // namespace moec
