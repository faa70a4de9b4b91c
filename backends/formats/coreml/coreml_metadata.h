// Reads the moec.* entries of a model's userDefined metadata: see
// backends/formats/coreml/mil_writer.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_owner.h"

namespace moec {

namespace mlmodel {
class Metadata;
}

// The token widths of a range package.
struct WidthRange {
  int64_t least = 0;
  int64_t largest = 0;  // greater than `least`
};

struct CoremlMetadata {
  std::string shard;                                       // empty: not stated
  std::map<std::string, Layout, std::less<>> layouts;      // by MIL name
  std::map<std::string, std::string, std::less<>> labels;  // IR label by MIL name
  std::set<std::string, std::less<>> constants;            // MIL names
  std::set<std::string, std::less<>> negations;            // MIL names
  std::optional<WidthRange> range;
  std::optional<WeightOwners> owners;  // by MIL name
};

// Reads the entries of a function; an empty name means the only function. Error: coreml.metadata.
Result<CoremlMetadata> read_metadata(const mlmodel::Metadata& stored, const std::string& function);

}  // namespace moec
