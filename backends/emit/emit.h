// What the emitters of all shard formats take and return.
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

// Which of the graphs of a shard: those for each number of tokens, and among these where routers
// take several numbers of experts, those of each (ir/experts/top_k_forms.h, top_k_label()).
struct GraphKey {
  int64_t tokens = 0;
  std::string top_k;  // empty: there is one graph for that many tokens
  bool operator==(const GraphKey&) const = default;
};

// "t16", or "t16.k2" with '.' between.
std::string to_string(const GraphKey& key, char between);

// The shard compiled for one number of tokens.
struct ShardWidth {
  int64_t tokens = 0;
  const Shard* shard = nullptr;  // in form `placed`
  std::string top_k;             // as in GraphKey
  GraphKey key() const { return {tokens, top_k}; }
};

std::vector<GraphKey> keys_of(std::span<const ShardWidth> widths);

// How large the files of a format may become.
struct FileLimits {
  // Of a graph file, at most: protobuf cannot hold a message of 2 GiB.
  uint64_t graph_bytes = (uint64_t{1} << 31) - 1;
  uint64_t weight_file_bytes = UINT64_MAX;  // a file of weights must stay below
  bool operator==(const FileLimits&) const = default;
};

// A weight in a data file.
struct EmittedTensor {
  std::string name;                // in the graph
  std::string view;                // the text of its view, and of its encoding unless that is plain
  uint64_t offset = 0, bytes = 0;  // of its values, or of its codes
  uint64_t overflows = 0;          // finite values that a cast made infinite
  uint64_t nonfinite = 0;          // values that are NaN or infinite, the overflows among them
  bool operator==(const EmittedTensor&) const = default;
};

// Where a weight, or a part of an encoded one, lies in a data file.
struct EmittedRange {
  std::string weight;  // weight_key()
  WeightRange range;
  bool operator==(const EmittedRange&) const = default;
};

// What the tokens of a calibration gave a weight [outputs, inputs] or [outputs, inputs, 1, 1]: one
// metric of all inputs, or those of consecutive blocks.
using InputMetrics = std::shared_ptr<const std::vector<ErrorMetric>>;

struct EmitOptions {
  std::string folder;  // created when missing
  std::string stem;    // relative path without extension: "moe/L00.g1"
  std::string family;  // for the model's description; may be empty
  size_t tile_bytes = kDefaultTileBytes;
  // How experts lie in data files. The files' metadata state the owners of all weights
  // (ir/graph/weight_owner.h), which follow from its layers; without them, they state none.
  ExpertLayout experts;
  FileLimits limits;
  bool sha256 = false;  // of each file, besides its xxh3
  // The metric of the inputs of a weight that is to be encoded, with the metric_parts() of its
  // encoding; null where none are known. Without this function, or without inputs, the codes are
  // the nearest ones. It is called for one weight after the other.
  std::function<Result<InputMetrics>(const Weight& weight, const Type& type)> inputs_of;
  // Called with the number of payload bytes each time some were written. Its error ends the
  // emission and is returned.
  std::function<Status(uint64_t bytes)> on_progress;
  // Called with the values of each weight before they are written, tile by tile from offset 0 on,
  // and with weight_key(). The values of an encoded weight are those that a reader of the file
  // gets. A weight that a further package of the shard holds as well begins again at offset 0.
  std::function<void(const std::string& weight, uint64_t offset, std::span<const std::byte> bytes)>
      on_weight;
  // Called after the last byte of each weight or of its codes. Its error ends the emission and is
  // returned.
  std::function<Status(const WeightView& view, const EmittedTensor& written)> on_written;
};

struct EmittedFile {
  std::string path;  // relative to the folder: "moe/L00.g1.data"
  uint64_t bytes = 0;
  std::string digest;  // xxh3-128, 32 lower-case hex digits
  std::string sha256;  // 64 lower-case hex digits, where it was asked for
  bool operator==(const EmittedFile&) const = default;
};

// The graph of one token width. Several widths may lie in one file, as functions or as one graph
// for a range of widths.
struct EmittedGraph {
  int64_t tokens = 0;
  EmittedFile file;      // "moe/L00.t16.onnx"
  std::string function;  // empty: the file holds one graph only
  std::string top_k;     // as in GraphKey
  GraphKey key() const { return {tokens, top_k}; }
  bool operator==(const EmittedGraph&) const = default;
};

struct EmitReport {
  std::vector<EmittedGraph> graphs;  // in the order of the widths
  std::vector<EmittedFile> data;     // all other files
  std::vector<EmittedTensor> tensors;
  std::vector<EmittedRange> ranges;   // of all weights, in the order of the data files
  std::vector<WeightRecord> weights;  // filled in by the caller, which records them in on_weight
  uint64_t weight_bytes = 0;          // without the gaps
  uint64_t bytes_read = 0;            // of the checkpoint
  uint64_t overflows() const;
};

}  // namespace moec
