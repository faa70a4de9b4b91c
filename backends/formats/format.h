// The table of shard formats, one row each: capabilities, limits and functions. Code that depends
// on the format of an export uses its row. ADD_A_FORMAT.md describes how to add one.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/emit/emit.h"
#include "backends/formats/coreml/emit_coreml.h"
#include "backends/formats/onnx/emit_onnx.h"
#include "ir/analysis/cost.h"
#include "ir/graph/loaded_shard.h"
#include "ir/target/target.h"

namespace moec {

// The contents of a format's files. Jobs that run or check graphs reject weights_only: error
// format.weights_only.
enum class FormatShape : uint8_t { graphs, weights_only };

// The options of all formats; each emitter reads its own.
struct FormatOptions {
  OnnxOptions onnx;
  CoremlOptions coreml;
  ExpertLayout experts;  // determines the order of weight_views
};

// Selects a graph of a file.
struct GraphSelection {
  std::string function;  // empty: the file's only or default graph
  int64_t tokens = 0;    // token width for a range graph; 0: the smallest
};

struct Format {
  ShardFormat id = ShardFormat::onnx;
  std::string_view about;  // a file of the format, for messages: "an .onnx file"
  FormatShape shape = FormatShape::graphs;

  // Endings of all files and packages that an export may write for a shard.
  std::span<const std::string_view> suffixes;
  // Endings of the paths that `read` accepts.
  std::span<const std::string_view> graph_suffixes;
  bool graph_is_folder = false;  // true if a graph is a package: a folder of several files

  FileLimits limits;

  // The functions below are null if `shape` is weights_only: such an export has no shards, and
  // frontends/export/export_gguf.h plans and writes its files.

  // Paths of all files that `emit` may write for a shard with this stem and these graphs.
  std::vector<std::string> (*file_names)(const std::string& stem, std::span<const GraphKey> keys,
                                         const FormatOptions& options) = nullptr;

  // Emits the shard at all given widths. `emit` reads the views that `weight_views` returns, in
  // that order. `weight_views` also fails if the format cannot express the shard.
  Result<EmitReport> (*emit)(std::span<const ShardWidth> widths, const WeightReader& weights,
                             const EmitOptions& emit, const FormatOptions& options) = nullptr;
  Result<std::vector<WeightView>> (*weight_views)(std::span<const ShardWidth> widths,
                                                  const FormatOptions& options) = nullptr;

  // The form in which codes of an encoded weight are written. Null: always two's complement.
  CodeFormOf code_form = nullptr;

  // Reads a graph back into the IR. Null if `shape` is weights_only.
  Result<LoadedShard> (*read)(const std::string& path, const GraphSelection& graph) = nullptr;
  // Runs the format's own checker on a graph file. Null: the format has none.
  Status (*check)(const std::string& path) = nullptr;
};

std::span<const Format> all_formats();
const Format& format_of(ShardFormat id);

// Returns the format whose graphs have the path's ending, or null.
const Format* format_of_path(const std::string& path);

// Returns the suffixes that the formats may add to a shard's name in an output folder.
std::vector<std::string_view> shard_suffixes();

// Fails with format.weights_only at file `path` if files of the format contain no graphs.
Status require_graphs(const Format& format, const std::string& path);

}  // namespace moec
