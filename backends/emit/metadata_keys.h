// Metadata keys of emitted files, shared by the emitters and readers of all formats.
#pragma once

#include <string>
#include <string_view>

namespace moec {

inline constexpr const char* kShardEntry = "shard";          // name of the shard
inline constexpr const char* kFamilyEntry = "family";        // model family, informative
inline constexpr const char* kSourcesEntry = "sources";      // positions of the initializers
inline constexpr const char* kLayoutsEntry = "layouts";      // layouts of values that are not plain
inline constexpr const char* kNamesEntry = "names";          // IR labels that differ from the names
inline constexpr const char* kConstantsEntry = "constants";  // weights that are constants of the IR
inline constexpr const char* kNegationsEntry =
    "negations";                                         // products that represent neg in the IR
inline constexpr const char* kWeightsEntry = "weights";  // owners (ir/graph/weight_owner.h)
inline constexpr const char* kRangeEntry = "range";      // smallest and largest token width

// "moec.ENTRY", or "moec.FUNCTION.ENTRY" in a file with several functions.
inline std::string metadata_key(std::string_view entry, std::string_view function = {}) {
  std::string key = "moec.";
  if (!function.empty()) key += std::string(function) + ".";
  return key += entry;
}

}  // namespace moec
