// Emits a shard as Core ML packages (.mlpackage with an ML Program), on any machine.
//
//   FOLDER/STEM.t1.mlpackage, …              a package for each width
//   FOLDER/STEM.mlpackage                    all widths, as functions or as a range
//     Manifest.json
//     Data/com.apple.CoreML/model.mlmodel    the program: mil_writer.h says how ops map
//     Data/com.apple.CoreML/weights/weight.bin   blob format v2: weight_blobs.h; absent without
//     weights
//
// Packages of one width each hold their own weights: Core ML cannot share a weight.bin between
// packages. Functions of one package share it. Same shard, same bytes: identifiers are derived from
// the path within the package, maps are sorted, no time and no random number enters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/emit/emit.h"
#include "ir/base/enum_table.h"

namespace moec {

// How the token widths of a shard lie in packages.
//   separate   a package for each width (the default: the only form that every device takes with
//              states and more than one token)
//   functions  one package with the functions "t1", "t16", …; the narrowest is the default one.
//              Needs spec 9
//   range      one package whose token dimension ranges from the least to the largest width, of
//              which there must be two. It runs every width in the range; Core ML compiles it anew
//              for each width that it meets (minutes on a device). The shards of the widths must
//              differ in sizes only
enum class WidthPackaging : uint8_t { separate, functions, range };
constexpr auto enum_names(WidthPackaging) {
  return name_table<WidthPackaging>({"separate", "functions", "range"});
}

struct CoremlOptions {
  WidthPackaging packaging = WidthPackaging::separate;
  // Core ML specification version: 6 iOS 15, 7 iOS 16, 8 iOS 17, 9 iOS 18. 0: the lowest that has
  // all that the shard uses. Error coreml.spec_too_low names what asks for more.
  int spec_version = 0;
};

// Core ML refuses a weight file that reaches 2 GiB ("Error in declaring network": coremltools
// 1807).
inline constexpr FileLimits kCoremlLimits = {.weight_file_bytes = uint64_t{1} << 31};

// The paths, relative to the folder, of the packages that emit_coreml writes for these graphs.
std::vector<std::string> coreml_package_names(const std::string& stem,
                                              std::span<const GraphKey> keys,
                                              WidthPackaging packaging);

// The paths of all files in those packages, of the weights whether there are any or not.
std::vector<std::string> coreml_file_names(const std::string& stem, std::span<const GraphKey> keys,
                                           WidthPackaging packaging);

// The views that emit_coreml() asks its reader for, in that order, with EmitOptions::experts, where
// the file system has hard links; without them some come once more. Errors: those about the shard
// and its version.
Result<std::vector<WeightView>> coreml_weight_views(std::span<const ShardWidth> widths,
                                                    const CoremlOptions& coreml,
                                                    const ExpertLayout& experts = {});

// A package appears under its final name only when it is whole: its files are complete and synced
// in a folder of a temporary name, which is then renamed. In EmitReport, each graph's file is the
// model.mlmodel of its package, `function` the width's function or empty; `data` holds all other
// files. Errors: emit.form, emit.dtype, emit.op, emit.constant, emit.graph_too_large,
// coreml.spec_too_low, coreml.states (more than two, or not f16), coreml.reserved_name (a port or
// state name that MIL reserves or cannot spell), coreml.blob_too_large, coreml.range, and those of
// OutputFile and WeightReader.
Result<EmitReport> emit_coreml(std::span<const ShardWidth> widths, const WeightReader& weights,
                               const EmitOptions& options, const CoremlOptions& coreml = {});

}  // namespace moec
