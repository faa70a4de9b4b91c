// Storage of a weight's values: plain, or as low-bit codes with parameters per block. The type of a
// weight is the type of its values, independent of its encoding. Only emitted files contain codes.
//
//   plain
//   affine(8; 1, 128)        one scale per row of 128
//   affine(4; 1, 32; zero)   one scale and one zero point per 32 values of a row
//   affine(4; 1, 32; copied)  the codes and scales that the weight's view decodes
//   affine(4; 1, 32; zero; copied)  the same with zero points, which are not integers
//   palette(4; 16, 128)      one table of 16 entries per 16 rows of 128
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

// value = scale × (code − zero): signed codes of 4 or 8 bits, one scale per block.
struct AffineEncoding {
  int64_t bits = 8;
  Dims block;               // divides each axis of the weight except the last
  bool zero_point = false;  // false: zero = 0
  // True: codes, scales and zeros are copied from the checkpoint through the weight's view
  // (ir/graph/stored_codes.h) instead of being computed from the values. Zeros are then stored as
  // floats of the weight's type plus 2^(bits − 1). Only CodeForm::excess supports them.
  bool copied = false;
  bool operator==(const AffineEncoding&) const = default;
};

// value = table[code]: one table of 2^bits entries per block.
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

// Representation of the codes and zeros of an affine encoding.
//   signed_codes  two's complement, as in Core ML blobs and ONNX int8
//   excess        2^(bits − 1) is added to each code, and the zeros of each row of blocks are
//                 padded to whole bytes, as in onnxruntime's MatMulNBits
enum class CodeForm : uint8_t { signed_codes, excess };

// Parts of a stored quantized weight. Codes are packed in C order. If blocks do not divide the last
// axis, zero codes pad each row to a whole block. Scales, zeros and tables are in the C order of
// their blocks; the entries of a table ascend.
enum class WeightPart : uint8_t { codes, scales, zeros, table };
constexpr auto enum_names(WeightPart) {
  return name_table<WeightPart>({"codes", "scales", "zeros", "table"});
}

struct StoredPart {
  WeightPart part = WeightPart::codes;
  Packing packing = Packing::u8;  // of codes and zeros
  Type type;                      // u8 for codes and zeros; otherwise the weight's element type
  bool operator==(const StoredPart&) const = default;
};

// The parts in storage order; empty for a plain weight. `type` is the weight's type and must pass
// check_encoding().
std::vector<StoredPart> stored_parts(const Encoding& encoding, const Type& type,
                                     CodeForm form = CodeForm::signed_codes);

// Returns the bytes of all parts, or of the values of a plain weight.
int64_t stored_bytes(const Encoding& encoding, const Type& type);

// Bits per code; 0 for a plain weight.
int64_t code_bits(const Encoding& encoding);

// Sizes of a block; empty for a plain weight.
Dims block_of(const Encoding& encoding);

// Number of blocks along each axis, and sizes of the codes, padding included.
Dims block_counts(const Encoding& encoding, const Type& type);
Dims code_dims(const Encoding& encoding, const Type& type);

// Returns a view of the weight's values that decodes `parts`, which are in the order of
// stored_parts().
WeightView decoded_view(const Encoding& encoding, const Type& type, std::vector<WeightView> parts,
                        CodeForm form = CodeForm::signed_codes);

// Errors (constraints in ir/OPS.md):
//   weight.c3  unsupported number of bits, or copied 8-bit codes with zeros
//   weight.c4  not one positive block size per axis, or a block size that does not divide its
//              axis (affine blocks need not divide the last axis)
//   weight.c5  the type is not f32, f16 or bf16, or has no axis or too many: a palette's tables
//              have one axis more than the weight
Status check_encoding(const Encoding& encoding, const Type& type);

std::string to_string(const Encoding& encoding);

}  // namespace moec
