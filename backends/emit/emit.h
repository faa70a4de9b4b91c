// Arguments and results of the emitters of all shard formats.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/emit/expert_order.h"
#include "backends/emit/weight_record.h"
#include "backends/weights/encode/error_feedback.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/shard.h"

namespace moec {

// Identifies a graph of a shard: its number of tokens and, if routers are exported with several
// values of k, its top-k variant (ir/experts/top_k_variants.h, top_k_label()).
struct GraphKey {
  int64_t tokens = 0;
  std::string top_k;  // empty: the only graph for this number of tokens
  bool operator==(const GraphKey&) const = default;
};

// "t16", or "t16.k2" with '.' between.
std::string to_string(const GraphKey& key, char between);

// The shard compiled for one number of tokens.
struct ShardWidth {
  int64_t tokens = 0;
  const Shard* shard = nullptr;  // in form `placed`
  std::string top_k;             // as in GraphKey
  // Name of the shard in a package of several shards, such as "expert_3"; empty: the only shard.
  std::string part;
  GraphKey key() const { return {tokens, top_k}; }
};

std::vector<GraphKey> keys_of(std::span<const ShardWidth> widths);

// Size limits of a format's files.
struct FileLimits {
  // Maximum size of a graph file: a protobuf message must be smaller than 2 GiB.
  uint64_t graph_bytes = (uint64_t{1} << 31) - 1;
  uint64_t weight_file_bytes = UINT64_MAX;  // exclusive limit of a weight file
  bool operator==(const FileLimits&) const = default;
};

// A weight in a data file.
struct EmittedTensor {
  std::string name;                // name in the graph
  std::string view;                // weight_key()
  uint64_t offset = 0, bytes = 0;  // extent of the values or codes
  uint64_t overflows = 0;          // finite values that became infinite in the cast
  uint64_t nonfinite = 0;          // NaN or infinite values, including the overflows
  bool operator==(const EmittedTensor&) const = default;
};

// The position of a weight, or of a part of an encoded one, in a data file.
struct EmittedRange {
  std::string weight;  // weight_key()
  WeightRange range;
  bool operator==(const EmittedRange&) const = default;
};

// Calibration metrics of a weight [outputs, inputs] or [outputs, inputs, 1, 1]: one metric for all
// inputs, or one per consecutive block of inputs.
using InputMetrics = std::shared_ptr<const std::vector<ErrorMetric>>;

struct EmitOptions {
  std::string folder;  // created if missing
  std::string stem;    // relative path without extension: "moe/L00.g1"
  std::string family;  // for the model's description; may be empty
  size_t tile_bytes = kDefaultTileBytes;
  // Order and alignment of experts in data files. With `experts.layers`, the files' metadata also
  // state the owner of each weight (ir/graph/weight_owner.h).
  ExpertLayout experts;
  FileLimits limits;
  bool sha256 = false;  // also compute the SHA-256 of each file
  // Returns the input metrics of a weight to be encoded, one per metric_parts() of its encoding, or
  // null if there are none. Without metrics, codes are rounded to nearest. Calls are sequential,
  // one per weight.
  std::function<Result<InputMetrics>(const Weight& weight, const Type& type)> inputs_of;
  // Called after each write with the number of payload bytes written. Its error aborts the emission
  // and is returned.
  std::function<Status(uint64_t bytes)> on_progress;
  // Called with weight_key() and the values of each weight before they are written, tile by tile
  // from offset 0. For an encoded weight these are the decoded values, as readers see them. If
  // another package of the shard also contains the weight, the calls repeat from offset 0.
  std::function<void(const std::string& weight, uint64_t offset, std::span<const std::byte> bytes)>
      on_weight;
  // Called after the last byte of each weight, or of its codes. Its error aborts the emission and
  // is returned.
  std::function<Status(const WeightView& view, const EmittedTensor& written)> on_written;
};

struct EmittedFile {
  std::string path;  // relative to the folder: "moe/L00.g1.data"
  uint64_t bytes = 0;
  std::string digest;  // xxh3-128, 32 lower-case hex digits
  std::string sha256;  // 64 lower-case hex digits; empty unless requested
  bool operator==(const EmittedFile&) const = default;
};

// The graph of one token width. Several widths may share a file, as functions or as one graph for a
// range of widths.
struct EmittedGraph {
  int64_t tokens = 0;
  EmittedFile file;      // "moe/L00.t16.onnx"
  std::string function;  // empty: the file's only graph
  std::string top_k;     // as in GraphKey
  GraphKey key() const { return {tokens, top_k}; }
  bool operator==(const EmittedGraph&) const = default;
};

struct EmitReport {
  std::vector<EmittedGraph> graphs;  // in the order of the widths
  std::vector<EmittedFile> data;     // all other files
  std::vector<EmittedTensor> tensors;
  std::vector<EmittedRange> ranges;   // ranges of all weights, in data file order
  std::vector<WeightRecord> weights;  // filled in by the caller from on_weight
  uint64_t weight_bytes = 0;          // excludes padding
  uint64_t bytes_read = 0;            // bytes read from the checkpoint
  uint64_t overflows() const;
};

}  // namespace moec
