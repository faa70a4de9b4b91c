// Role, digests and file ranges of a weight, recorded during emission: see WeightRecord in
// manifest.fbs.
#pragma once

#include <string>
#include <vector>

#include "ir/analysis/find_experts.h"
#include "ir/base/enum_table.h"

namespace moec {

// Contents of a range of a weight file: the values of a weight, or a part of an encoded one
// (WeightPart in ir/graph/encoding.h).
enum class StoredAs : uint8_t { values, codes, scales, zeros, table };
constexpr auto enum_names(StoredAs) {
  return name_table<StoredAs>({"values", "codes", "scales", "zeros", "table"});
}

struct WeightRange {
  StoredAs part = StoredAs::values;
  int64_t data = 0;  // index into the shard's data files
  int64_t offset = 0, bytes = 0;
  int64_t alignment = 1;  // alignment of `offset`
  std::string digest;     // digest of the bytes
  bool operator==(const WeightRange&) const = default;
};

struct WeightRecord {
  std::string name;
  WeightRole role = WeightRole::plain;
  int64_t moe_layer = 0;
  int64_t first_expert = 0;
  std::string digests;
  std::vector<WeightRange> ranges;  // codes first; one for a plain weight
  bool operator==(const WeightRecord&) const = default;
};

}  // namespace moec
