// The text form. print and parse are exact inverses: parse(print(s)) == s for each shard that
// verifies, and print(parse(t)) == t for each canonical text (one that print made).
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
// A comment runs from // to the end of the line; line breaks mean no more than spaces. %name is a
// value with a name; %12 is one without, and 12 is its id where print wrote it (a parser takes any
// number that is not yet in use, so that a text written by hand need not count). Attributes may
// stand in any order; one that is left out has its default. All are printed. Doubles are written
// with the fewest digits that read back as the same double; NaN has no text. A tensor name that is
// not made of [A-Za-z0-9_./-] is quoted: @"a b":f32[2]; in quotes \" \\ and \xhh are escapes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec {

std::string print(const Shard& shard);

// Prints with each finding under the line that it concerns, as comments. Findings that concern no
// line come first. Takes any shard, also one that does not verify.
std::string print_with_findings(const Shard& shard, const Diagnostics& findings);

// How findings name what they concern, in Place::op: a value by its label, an op by its first
// result's label, or "#3" for the op of id 3 when it has no result.
std::string op_label(const Shard& shard, OpId op);
// "output moe_out", "state k_state".
std::string output_label(const Output& output);
std::string state_label(const State& state);

// The line on which each thing stands, by the label that findings use; the shard's own has label
// "".
using LineMap = std::map<std::string, uint32_t, std::less<>>;

struct ParseOptions {
  std::string file = "<text>";  // for diagnostics
  uint32_t first_line = 1;
  LineMap* lines = nullptr;  // filled when given
};

inline constexpr size_t kMaxTextValues = size_t{1} << 20;  // values in one text

// Syntax, unknown names and redefinitions are errors with line and column ("text.*"). Types are
// taken as written: verify() checks them.
Result<Shard> parse_shard(std::string_view text, const ParseOptions& options = {});
Result<WeightView> parse_view(std::string_view text);
Result<Type> parse_type(std::string_view text);

}  // namespace moec
