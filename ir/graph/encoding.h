// How the values of a weight are stored: as they are, or as codes of a few bits with parameters
// that blocks of values share. The type of a weight is that of its values, whatever its encoding;
// only emitted files hold codes.
//
//   plain
//   affine(8; 1, 128)        a scale for each row of 128
//   affine(4; 1, 32; zero)   a scale and a zero for each 32 values of a row
//   affine(4; 1, 32; copied)  the codes and scales that the weight's view decodes
//   palette(4; 16, 128)      a table of 16 entries for each 16 rows of 128
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_view.h"

namespace moec {

struct PlainEncoding {
  bool operator==(const PlainEncoding&) const = default;
};

// value = scale × (code − zero): signed codes of 4 or 8 bits, one scale for each block.
struct AffineEncoding {
  int64_t bits = 8;
  Dims block;               // divides each axis of the weight but the last
  bool zero_point = false;  // else zero = 0
  // The codes and scales are those that the weight's view decodes (ir/graph/weight_form.h), not
  // chosen for its values. Such a weight has no zeros.
  bool copied = false;
  bool operator==(const AffineEncoding&) const = default;
};

// value = table[code]: a table of 2^bits entries for each block.
struct PaletteEncoding {
  int64_t bits = 4;  // 1, 2, 3, 4, 6 or 8
  Dims block;        // divides each axis of the weight
  bool operator==(const PaletteEncoding&) const = default;
};

using Encoding = std::variant<PlainEncoding, AffineEncoding, PaletteEncoding>;

inline bool is_plain(const Encoding& encoding) {
  return std::holds_alternative<PlainEncoding>(encoding);
}

inline bool is_copied(const Encoding& encoding) {
  const auto* affine = std::get_if<AffineEncoding>(&encoding);
  return affine && affine->copied;
}

// How the codes and zeros of an affine encoding are written.
//   signed_codes  in two's complement: blobs of Core ML, int8 of ONNX
//   excess        2^(bits − 1) is added, and the zeros of each row of blocks fill whole bytes:
//                 onnxruntime's MatMulNBits
enum class CodeForm : uint8_t { signed_codes, excess };

// What an encoded weight is stored as. Codes are packed, value after value in C order; where blocks
// do not divide the last axis, the codes of each row are followed by zeros up to a whole block.
// Scales, zeros and tables lie in the C order of their blocks, a table's entries in rising order.
enum class WeightPart : uint8_t { codes, scales, zeros, table };
constexpr auto enum_names(WeightPart) {
  return name_table<WeightPart>({"codes", "scales", "zeros", "table"});
}

struct StoredPart {
  WeightPart part = WeightPart::codes;
  Packing packing = Packing::u8;  // of codes and zeros
  Type type;                      // codes and zeros: u8, the bytes; else of the weight's elements
  bool operator==(const StoredPart&) const = default;
};

// The parts in the order in which they are stored; none for a plain weight. `type` is that of the
// weight, which meets check_encoding().
std::vector<StoredPart> stored_parts(const Encoding& encoding, const Type& type,
                                     CodeForm form = CodeForm::signed_codes);

// Bytes of all parts, or of the values of a plain weight.
int64_t stored_bytes(const Encoding& encoding, const Type& type);

// The bits of a code; 0 for a plain weight.
int64_t code_bits(const Encoding& encoding);

// The sizes of a block; none for a plain weight.
Dims block_of(const Encoding& encoding);

// The sizes that the blocks cut the weight's axes into, and those of its codes.
Dims block_counts(const Encoding& encoding, const Type& type);
Dims code_dims(const Encoding& encoding, const Type& type);

// The weight's values from its stored parts, which are given in the order of stored_parts().
WeightView decoded_view(const Encoding& encoding, const Type& type, std::vector<WeightView> parts,
                        CodeForm form = CodeForm::signed_codes);

// Errors, constraints of ir/OPS.md:
//   weight.c3  bits that the encoding does not have, or copied codes with zeros
//   weight.c4  not one positive block size for each axis, or one that does not divide its axis; the
//              last axis need not be divided by affine blocks
//   weight.c5  a weight that is not f32, f16 or bf16, or has no axis, or too many for a table's
//              entries to have one more
Status check_encoding(const Encoding& encoding, const Type& type);

std::string to_string(const Encoding& encoding);

}  // namespace moec
