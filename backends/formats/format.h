// The formats that shards are emitted in, one row each: what a format can do and what it asks for.
// Everything that depends on the format of an export asks its row. ADD_A_FORMAT.md tells what a new
// row needs.
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

// What the files of a format hold. Jobs that run or check graphs refuse a format without them:
// error format.weights_only.
enum class FormatShape : uint8_t { graphs, weights_only };

// The options of all formats; each emitter reads its own.
struct FormatOptions {
  OnnxOptions onnx;
  CoremlOptions coreml;
  ExpertLayout experts;  // for the order of weight_views
};

// Which graph of a file is read.
struct GraphSelection {
  std::string function;  // empty: the file's only or default graph
  int64_t tokens = 0;    // of a graph for a range of widths; 0: the least
};

struct Format {
  ShardFormat id = ShardFormat::onnx;
  std::string_view about;  // one of its files, for messages: "an .onnx file"
  FormatShape shape = FormatShape::graphs;

  // Endings of the files and packages that an export may leave of a shard.
  std::span<const std::string_view> suffixes;
  // Endings of what `read` takes.
  std::span<const std::string_view> graph_suffixes;
  bool graph_is_folder = false;  // a graph is a package, a folder of several files

  FileLimits limits;

  // The functions below are null with shape weights_only: such an export has no shards. Its files
  // are planned and written by frontends/export/export_gguf.h.

  // Paths of all files that `emit` may write for a shard of this stem and these graphs.
  std::vector<std::string> (*file_names)(const std::string& stem, std::span<const GraphKey> keys,
                                         const FormatOptions& options) = nullptr;

  // Emits the shard of all given widths. `emit` asks its reader for the views that `weight_views`
  // returns, in that order; `weight_views` also finds what the format cannot take of the shard.
  Result<EmitReport> (*emit)(std::span<const ShardWidth> widths, const WeightReader& weights,
                             const EmitOptions& emit, const FormatOptions& options) = nullptr;
  Result<std::vector<WeightView>> (*weight_views)(std::span<const ShardWidth> widths,
                                                  const FormatOptions& options) = nullptr;

  // How the codes of an encoded weight are written. Null: always in two's complement.
  CodeFormOf code_form = nullptr;

  // Reads a graph back into the IR. Null with shape weights_only.
  Result<LoadedShard> (*read)(const std::string& path, const GraphSelection& graph) = nullptr;
  // Checks a graph file with a checker of the format's own. Null: there is none.
  Status (*check)(const std::string& path) = nullptr;
  // The name that each op has in a file of the format, by op; empty for ops without one. Null:
  // files of the format do not name ops apart from their values.
  IdMap<OpId, std::string> (*op_names)(const Shard& shard) = nullptr;
};

std::span<const Format> all_formats();
const Format& format_of(ShardFormat id);

// The format whose graphs have the path's ending; null when there is none.
const Format* format_of_path(const std::string& path);

// What all formats may leave of a shard in an output folder.
std::vector<std::string_view> shard_suffixes();

// Error format.weights_only. `path` is the file that holds no graph.
Status require_graphs(const Format& format, const std::string& path);

}  // namespace moec
