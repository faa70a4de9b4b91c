// In which form a user wants weights to be stored, whatever their shapes. encoding_of() gives the
// encoding of one weight (ir/graph/encoding.h).
//
//   float            in the element type of the shards; f16, f32 and bf16 ask for this type
//   int8             integers of 8 bits, a scale for each output row; also int8:row
//   int8:tensor      one scale for the whole weight
//   int8:expert      one scale for each expert; differs from int8:tensor in banks of experts
//   int8:32          a scale for each 32 inputs of a row; also int8:64, int8:128
//   int4             4 bits with such scales, as int4:32; also int4:64, int4:128
//   int4:32:zero     the same with a zero point; :zero may follow each of the forms above
//   int4-lut         4-bit indices of a table, which 16 output rows share, as int4-lut:g16
//   int4-lut:g8      a table for each 8 output rows; tables have 1, 2, 3, 4, 6 or 8 bits
//   int4-lut:tensor  one table for the whole weight
//   q8_0, q4_0, mxfp4   blocks of 32 inputs of a row with their scale beside them, as GGUF files
//                    have them (ir/graph/block_type.h)
//   copy             the codes and scales of a checkpoint that has them (ir/graph/weight_form.h);
//                    weights that it stores as numbers stay float
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

// Codes that a checkpoint stores: what `--weights copy` passes through.

// value = code × scale.
struct StoredCodes {
  WeightView codes;         // f32: integers from -8 to 7, with the sizes of the weight
  WeightView scales;        // f32: one for each block
  AffineEncoding encoding;  // copied
};

// The codes and scales that a view decodes, where they are integers of 4 bits with a scale for each
// block, and all further steps move whole blocks: slices, permutations, reshapes that only add or
// remove sizes of 1, joins, and a cast to the element type of the view. Nothing for other views.
std::optional<StoredCodes> stored_codes(const WeightView& view);

// Whether the view decodes codes or numbers of 8 bits of any kind.
bool decodes_stored(const WeightView& view);

struct FloatForm {
  std::optional<DType> dtype;  // that the shards must have; none: any
  bool operator==(const FloatForm&) const = default;
};

// The values that share a scale; blocks lie along the inputs.
enum class ScaleScope : uint8_t { row, tensor, expert, block };
constexpr auto enum_names(ScaleScope) {
  return name_table<ScaleScope>({"row", "tensor", "expert", "block"});
}

struct AffineForm {
  int64_t bits = 8;  // 4 or 8
  ScaleScope scope = ScaleScope::row;
  int64_t block = 0;  // 32, 64 or 128 with blocks, else 0
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

// Blocks of a GGUF file; no graph has them.
struct BlockForm {
  BlockType type = BlockType::q8_0;
  bool operator==(const BlockForm&) const = default;
};

using WeightForm = std::variant<FloatForm, AffineForm, PaletteForm, CopyForm, BlockForm>;

inline bool is_float(const WeightForm& form) { return std::holds_alternative<FloatForm>(form); }
inline bool is_block(const WeightForm& form) { return std::holds_alternative<BlockForm>(form); }
inline bool is_copy(const WeightForm& form) { return std::holds_alternative<CopyForm>(form); }

// Error weights.form: the text is none of the forms above. The message lists them.
Result<WeightForm> parse_weight_form(std::string_view text);
// The shortest text that names the form with its scope: "int8", "int4:32", "int4-lut:g16".
std::string to_string(const WeightForm& form);

// A weight that is the matrix of a projection, [N, K] or [N, K, 1, 1].
struct EncodedMatrix {
  Type type;
  int64_t experts = 1;      // equal blocks along expert_axis, each of one expert
  int64_t expert_axis = 0;  // 0: along the rows; 1: along the inputs
  std::string name;         // for messages
};

// The encoding of a matrix in this form; plain for a float form, and for copied codes, which are
// found in the weight's view. In a matrix [N, K] the last block of a row may be partial.
// Errors, which name the matrix:
//   weights.group   the rows do not divide into groups of so many; the message lists sizes that fit
//   weights.block   the inputs of a weight [N, K, 1, 1] do not divide into blocks of so many
//   weights.form    blocks of a GGUF file
Result<Encoding> encoding_of(const WeightForm& form, const EncodedMatrix& matrix);

// The forms of the weights of one shard.
struct WeightForms {
  WeightForm base;  // of weights whose source has no entry
  // By source: the name of a checkpoint tensor, or the text of a seeded source, "seeded(7)".
  std::map<std::string, WeightForm, std::less<>> by_source;
  bool operator==(const WeightForms&) const = default;

  // Whether no weight is to be encoded.
  bool all_float() const;
  const WeightForm& of_source(std::string_view source) const;
};

// "int8", or "float,NAME=int8,…" with sources. parse_weight_forms() reads it back; nothing where
// the text is no such list.
std::string to_string(const WeightForms& forms);
std::optional<WeightForms> parse_weight_forms(std::string_view text);

}  // namespace moec
