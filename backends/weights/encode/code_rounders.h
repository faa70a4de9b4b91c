// Rounds values to codes with given scales, zeros or tables.
#pragma once

#include "backends/weights/encode/code_blocks.h"

namespace moec {

// code = round to even(value / scale) + zero, clamped to affine_codes(), in two's complement.
class AffineRounder : public Rounder {
 public:
  // Scales and zeros are indexed by CodeBlocks::place(). If `zeros` is empty, all zeros are 0.
  AffineRounder(const CodeBlocks& blocks, int bits, std::span<const float> scales,
                std::span<const int8_t> zeros);
  void round(int64_t column, int64_t first, std::span<const float> values, std::span<uint8_t> codes,
             std::span<float> rounded) const override;
  void decode(int64_t column, int64_t first, std::span<const uint8_t> codes,
              std::span<float> values) const override;

 private:
  size_t at(int64_t column, int64_t row) const {
    return static_cast<size_t>(column / blocks_.block_columns * blocks_.rows + row);
  }

  CodeBlocks blocks_;
  int bits_;
  float low_, high_;
  std::vector<float> scales_, inverses_, zeros_;  // per block across and row
};

// Rounds to the nearest entry of a table.
class PaletteRounder : public Rounder {
 public:
  // `tables` has 2^bits ascending entries per CodeBlocks::place().
  PaletteRounder(const CodeBlocks& blocks, int bits, std::vector<float> tables);
  void round(int64_t column, int64_t first, std::span<const float> values, std::span<uint8_t> codes,
             std::span<float> rounded) const override;
  void decode(int64_t column, int64_t first, std::span<const uint8_t> codes,
              std::span<float> values) const override;

  std::span<const float> table(int64_t place) const {
    return std::span(tables_).subspan(static_cast<size_t>(place) * entries_, entries_);
  }
  const std::vector<float>& tables() const { return tables_; }

 private:
  // Calls visit(table, offset, count) for each run of rows that share a table.
  template <class Visit>
  void for_tables(int64_t column, int64_t first, size_t count, Visit visit) const;

  CodeBlocks blocks_;
  size_t entries_;
  std::vector<float> tables_;
};

}  // namespace moec
