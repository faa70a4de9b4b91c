// Emits a shard as Core ML packages (.mlpackage with an ML Program), on any platform.
//
//   FOLDER/STEM.t1.mlpackage, …              one package per width
//   FOLDER/STEM.mlpackage                    all widths, as functions or as a range; with
//   functions,
//                                            also the shards of a layer
//     Manifest.json
//     Data/com.apple.CoreML/model.mlmodel    the program; mil_writer.h documents the op mapping
//     Data/com.apple.CoreML/weights/weight.bin   blob format v2 (weight_blobs.h); optional
// Packages of one width each have their own weight.bin, because Core ML cannot share it between
// packages; functions of one package share it. The output is deterministic: identifiers are derived
// from paths within the package, maps are sorted, and there are no timestamps or random numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/emit/emit.h"
#include "ir/base/enum_table.h"

namespace moec {

// The packaging of a shard's token widths.
//   automatic  functions for a shard without states if it needs spec 9 or spec 9 is requested,
//              because functions share their weights; otherwise separate
//   separate   one package per width: with states and more than one token, the only form that every
//              device accepts. Its hard-linked weight files become copies on another file system
//   functions  one package with the functions "t1", "t16", …; the narrowest is the default
//              function. Requires spec 9. The graphs of several shards have the functions
//              "router_t1", "expert_0_t1", … (ShardWidth::part), without the width if a shard has
//              one graph
//   range      one package whose token dimension ranges from the smallest to the largest width.
//              Requires at least two widths, whose shards differ only in sizes. It runs every
//              width in the range; Core ML recompiles it for each width (minutes on a device)
enum class WidthPackaging : uint8_t { automatic, separate, functions, range };
constexpr auto enum_names(WidthPackaging) {
  return name_table<WidthPackaging>({"auto", "separate", "functions", "range"});
}

struct CoremlOptions {
  WidthPackaging packaging = WidthPackaging::automatic;
  // Core ML specification version: 6 iOS 15, 7 iOS 16, 8 iOS 17, 9 iOS 18. 0: the lowest version
  // that supports the shard. Error coreml.spec_too_low names the feature that needs a higher one.
  int spec_version = 0;
};

// Core ML rejects weight files of 2 GiB or more ("Error in declaring network": coremltools issue
// 1807).
inline constexpr FileLimits kCoremlLimits = {.weight_file_bytes = uint64_t{1} << 31};

// Returns the paths of all files that emit_coreml() may write for these graphs, relative to the
// folder, always including weight files. With `automatic`: those of every packaging that the graphs
// may get.
std::vector<std::string> coreml_file_names(const std::string& stem, std::span<const GraphKey> keys,
                                           WidthPackaging packaging);

// Returns the views that emit_coreml() reads, in order, if the file system supports hard links.
// Without hard links, emit_coreml() reads some views more than once. `experts` is
// EmitOptions::experts. Errors: those of check_mil(), coreml.range, coreml.spec_too_low,
// coreml.spec_unknown.
Result<std::vector<WeightView>> coreml_weight_views(std::span<const ShardWidth> widths,
                                                    const CoremlOptions& coreml,
                                                    const ExpertLayout& experts = {});

// A package appears under its final name only when complete: its files are written and synced in a
// temporary folder, which is then renamed. In EmitReport, each graph's file is the model.mlmodel of
// its package, `function` is the width's function or empty, and `data` lists all other files.
// The graphs may be those of several shards, which have equal MoE layers; `functions` only.
// Errors: those of check_mil(), emit.graph_too_large, coreml.spec_too_low, coreml.spec_unknown,
// coreml.blob_too_large, coreml.range, and those of OutputFile and WeightReader.
Result<EmitReport> emit_coreml(std::span<const ShardWidth> widths, const WeightReader& weights,
                               const EmitOptions& options, const CoremlOptions& coreml = {});

}  // namespace moec
