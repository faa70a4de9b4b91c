// The user's choice of a storage form for weights, independent of their shapes. encoding_of()
// derives the encoding of one weight (ir/graph/encoding.h).
//
//   float            in the element type of the shards; f16, f32 and bf16 also require that type
//   int8             8-bit integers, one scale per output row; also int8:row
//   int8:tensor      one scale for the whole weight
//   int8:expert      one scale per expert; differs from int8:tensor only in banks of experts
//   int8:32          one scale per 32 inputs of a row; also int8:64, int8:128, int8:256
//   int4             4-bit integers, one scale per 32 inputs, as int4:32; also int4:64, int4:128,
//                    int4:256
//   int4:row         one scale per output row
//   int4:32:zero     with zero points; :zero may follow each of the integer forms above
//   int4-lut         4-bit indices into a table that 16 output rows share; also int4-lut:g16
//   int4-lut:g8      one table per 8 output rows; indices have 1, 2, 3, 4, 6 or 8 bits
//   int4-lut:tensor  one table for the whole weight
//   q8_0, q4_0, mxfp4, tq1_0, tq2_0   the block types of GGUF files: 32 inputs of a row, or 256 of
//                    ternary weights, next to their scale (ir/graph/block_type.h)
//   copy             the checkpoint's own codes and scales (ir/graph/stored_codes.h); weights
//                    without codes stay float
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/graph/block_type.h"
#include "ir/graph/encoding.h"
#include "ir/graph/type.h"

namespace moec {

struct FloatForm {
  std::optional<DType> dtype;  // required element type of the shards; absent: any
  bool operator==(const FloatForm&) const = default;
};

// The set of values that share a scale. Blocks extend along the inputs.
enum class ScaleScope : uint8_t { row, tensor, expert, block };
constexpr auto enum_names(ScaleScope) {
  return name_table<ScaleScope>({"row", "tensor", "expert", "block"});
}

struct AffineForm {
  int64_t bits = 8;  // 4 or 8
  ScaleScope scope = ScaleScope::row;
  int64_t block = 0;  // 32, 64, 128 or 256 with blocks, else 0
  bool zero_point = false;
  bool operator==(const AffineForm&) const = default;
};

struct PaletteForm {
  int64_t bits = 4;   // 1, 2, 3, 4, 6 or 8
  int64_t rows = 16;  // output rows that share a table; 0: all rows
  bool operator==(const PaletteForm&) const = default;
};

struct CopyForm {
  bool operator==(const CopyForm&) const = default;
};

// Blocks of a GGUF file. Graphs cannot contain them.
struct BlockForm {
  BlockType type = BlockType::q8_0;
  bool operator==(const BlockForm&) const = default;
};

using WeightForm = std::variant<FloatForm, AffineForm, PaletteForm, CopyForm, BlockForm>;

inline bool is_float(const WeightForm& form) { return std::holds_alternative<FloatForm>(form); }
inline bool is_block(const WeightForm& form) { return std::holds_alternative<BlockForm>(form); }
inline bool is_copy(const WeightForm& form) { return std::holds_alternative<CopyForm>(form); }

// Error weights.form: the text is not one of the forms above. The message lists them.
Result<WeightForm> parse_weight_form(std::string_view text);
// The canonical text of the form, which spells out all scopes except the row scope of int8: "int8",
// "int4:32", "int4-lut:g16".
std::string to_string(const WeightForm& form);

// The matrix of a projection, [N, K] or [N, K, 1, 1].
struct EncodedMatrix {
  Type type;
  int64_t experts = 1;      // number of equal blocks along expert_axis, one per expert
  int64_t expert_axis = 0;  // 0: rows; 1: inputs
  std::string name;         // for messages
};

// Returns the encoding of a matrix in this form. A float form is plain, and so is `copy`, whose
// codes come from the weight's view. In a matrix [N, K] the last block of a row may be partial.
// Errors, which name the matrix:
//   weights.group   the group size does not divide the rows; the message lists sizes that do
//   weights.block   the block size does not divide the inputs of a weight [N, K, 1, 1]
//   weights.form    the form is a block type of GGUF files
Result<Encoding> encoding_of(const WeightForm& form, const EncodedMatrix& matrix);

// The storage forms of the weights of one shard.
struct WeightForms {
  WeightForm base;  // form of the weights whose source has no entry
  // Keyed by source: the name of a checkpoint tensor, or the text of a seeded source, "seeded(7)".
  std::map<std::string, WeightForm, std::less<>> by_source;
  bool operator==(const WeightForms&) const = default;

  // True if every weight stays float.
  bool all_float() const;
  const WeightForm& of_source(std::string_view source) const;
};

// Returns "int8", or "float,NAME=int8,…" with sources. parse_weight_forms() is the inverse; it
// returns empty for malformed texts.
std::string to_string(const WeightForms& forms);
std::optional<WeightForms> parse_weight_forms(std::string_view text);

}  // namespace moec
