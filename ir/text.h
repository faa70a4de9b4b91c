// The text form. print and parse are exact inverses: parse(print(s)) == s for each shard that
// verifies, and print(parse(t)) == t for each canonical text.
//
//   shard L00.moe static {
//     input %hidden : f32[1,64,8,1]{channels}
//     %router.weight = weight @model.layers.0.mlp.gate.weight:bf16[8,64] | cast(f32) : f32[8,64]
//     %1 = conv %hidden, %router.weight {groups = 1} : f32[1,8,8,1]{channels}
//     %values, %indices = topk %1 {k = 2, axis = 1} : f32[1,2,8,1]{channels}, i64[1,2,8,1]
//     state_write %1 {state = "k_state"}
//     output moe_out = %1
//   }
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/shard.h"

namespace moec {

std::string print(const Shard& shard);

// Prints with each finding under the line that it concerns (by Place::op = value label).
std::string print_with_findings(const Shard& shard, const Diagnostics& findings);

struct ParseOptions {
  std::string file = "<text>";  // for diagnostics
  uint32_t first_line = 1;
};

// Syntax, unknown names and redefinitions are errors with line and column ("text.*"). Types are
// taken as written: verify() checks them.
Result<Shard> parse_shard(std::string_view text, const ParseOptions& options = {});
Result<WeightView> parse_view(std::string_view text);
Result<Type> parse_type(std::string_view text);

}  // namespace moec
