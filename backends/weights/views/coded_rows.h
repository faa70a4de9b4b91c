// Weights that are stored as codes, described for fast decoding: rows of consecutive codes, with a
// scale and an offset, or a table, per block.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/weights/views/coded_token.h"
#include "backends/weights/views/stored_numbers.h"
#include "backends/weights/views/weight_pager.h"
#include "ir/graph/type.h"

namespace moec {

// Element (r, c) is code r · columns + c, in block (r / block_rows, c / block_columns); blocks are
// numbered in C order. The element's value, rounded to `rounded`, is (code − offset) · scale or,
// with a table, entry `code` of the block's `entries` entries. Arithmetic is in f32.
struct CodedRows {
  StoredNumbers codes;
  int64_t columns = 1;
  int64_t block_rows = 1, block_columns = 1;
  std::optional<StoredNumbers> scales, offsets, table;
  int64_t entries = 0;
  DType rounded = DType::f32;
};

// Decodes elements [begin, begin + count), in C order. Returns false if `held` lacks some of their
// bytes.
bool decode_rows(const CodedRows& rows, const HeldBytes& held, int64_t begin, int64_t count,
                 float* to);

// Returns true if products with activations in this format do not round the values of codes:
// products of integers, which are less exact than f16.
bool skips_rounding(const CodedRows& rows, ActivationFormat format);

// Returns how products need the activations of a token. Returns nullopt if the rows must be decoded
// first: if codes without a table do not have 4 or 8 bits, if a row does not begin at a byte, or if
// blocks divide a group of activations. Rows with a table, and MXFP4 rows with offsets, are
// multiplied by f32 activations in either format.
std::optional<Arrangement> arrangement_of(const CodedRows& rows, ActivationFormat format);

struct RowRange {
  int64_t first = 0, count = 0;
};

// out[r] = row (first + r) · token, for each row of the range. A sum depends on its row and the
// token alone. Returns false if `held` lacks some of the bytes.
bool dot_coded_rows(const CodedRows& rows, const HeldBytes& held, const RowRange& range,
                    const CodedToken& token, float* out);
// The same for several tokens. Groups are summed in another order than for one token.
bool dot_coded_rows(const CodedRows& rows, const HeldBytes& held, const RowRange& range,
                    const CodedTokens& tokens, TokenProducts out);

}  // namespace moec
