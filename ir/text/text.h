// The text form. print and parse are exact inverses: parse(print(s)) == s for each shard that
// verifies, and print(parse(t)) == t for each canonical text (one that print() wrote).
//
//   shard L00.attn static {
//     input %hidden : f32[1,64,8,1]{channels}
//     state k_state : f32[1,2,16,32]
//     %router.weight = weight @model.layers.0.mlp.gate.weight:bf16[8,64] | cast(f32) : f32[8,64]
//     %2 = constant {type = f32[2], values = [0.5, 1]} : f32[2]
//     %values, %indices = topk %2 {k = 1, axis = 0} : f32[1], i64[1]
//     state_write %k_new {state = "k_state"}
//     output moe_out = %values
//   }
//
// A comment extends from // to the end of the line; line breaks are equivalent to spaces. %name is
// a named value, %12 an unnamed one. print() writes the id of an unnamed value; the parser accepts
// any unused number, so hand-written texts need not number values in order. Attributes may be in
// any order, and an omitted attribute has its default; print() writes all attributes. Doubles are
// written with the fewest digits that round-trip; NaN has no text. A tensor name with characters
// other than [A-Za-z0-9_./-] is quoted: @"a b":f32[2]. The escapes in quotes are \" \\ and \xhh.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec {

std::string print(const Shard& shard);

// Prints the shard with each finding as a comment under the line that it concerns. Findings without
// a line come first. Accepts any shard, even one that does not verify.
std::string print_with_findings(const Shard& shard, const Diagnostics& findings);

// Labels for Place::op of findings. The label of an op is the label of its first result, or "#3"
// for op id 3 if the op has no results.
std::string op_label(const Shard& shard, OpId op);
// "output moe_out", "state k_state".
std::string output_label(const Output& output);
std::string state_label(const State& state);

// Line numbers, keyed by the labels that findings use; the label of the shard itself is "".
using LineMap = std::map<std::string, uint32_t, std::less<>>;

struct ParseOptions {
  std::string file = "<text>";  // for diagnostics
  uint32_t first_line = 1;
  LineMap* lines = nullptr;  // filled unless null
};

inline constexpr size_t kMaxTextValues = size_t{1} << 20;  // values in one text

// Syntax errors, unknown names and redefinitions are errors "text.*" with line and column. Types
// are accepted as written; verify() checks them.
Result<Shard> parse_shard(std::string_view text, const ParseOptions& options = {});
Result<WeightView> parse_view(std::string_view text);
Result<Type> parse_type(std::string_view text);

}  // namespace moec
