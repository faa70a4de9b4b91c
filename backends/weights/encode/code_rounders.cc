#include "backends/weights/encode/code_rounders.h"

#include <algorithm>

#include "backends/weights/encode/affine.h"
#include "backends/weights/encode/palette.h"
#include "backends/weights/encode/round_even.h"

namespace moec {
namespace {

// Above this number of entries, binary search is faster than a linear scan.
constexpr size_t kFewEntries = 16;

// Writes the index of each value's nearest entry: the number of midpoints between adjacent entries
// that are less than the value.
void count_middles(std::span<const float> table, std::span<const float> values,
                   std::span<uint8_t> codes) {
  std::fill(codes.begin(), codes.end(), uint8_t{0});
  for (size_t e = 0; e + 1 < table.size(); ++e) {
    // Skips an equal entry, so that the lowest index wins, as in nearest_entry().
    if (table[e] == table[e + 1]) continue;
    const float middle = table[e] + (table[e + 1] - table[e]) / 2;
    const auto code = static_cast<uint8_t>(e + 1);
    for (size_t i = 0; i < values.size(); ++i) codes[i] = values[i] > middle ? code : codes[i];
  }
}

}  // namespace

AffineRounder::AffineRounder(const CodeBlocks& blocks, int bits, std::span<const float> scales,
                             std::span<const int8_t> zeros)
    : blocks_(blocks),
      bits_(bits),
      low_(static_cast<float>(affine_codes(bits).low)),
      high_(static_cast<float>(affine_codes(bits).high)) {
  // Scales are repeated for all rows of a block, so that round() reads them in sequence.
  for (int64_t across = 0; across < blocks.across(); ++across)
    for (int64_t row = 0; row < blocks.rows; ++row) {
      const auto place = static_cast<size_t>(blocks.place(row / blocks.block_rows, across));
      scales_.push_back(scales[place]);
      inverses_.push_back(1 / scales[place]);
      zeros_.push_back(zeros.empty() ? 0 : static_cast<float>(zeros[place]));
    }
}

void AffineRounder::round(int64_t column, int64_t first, std::span<const float> values,
                          std::span<uint8_t> codes, std::span<float> rounded) const {
  const size_t begin = at(column, first);
  const auto mask = static_cast<unsigned>((1 << bits_) - 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const float zero = zeros_[begin + i];
    const float goal = values[i] * inverses_[begin + i] + zero;
    // The same operations as AffineRule::number(), so that an unchanged goal gets the code of
    // WeightEncoder.
    const float code = round_even(std::min(std::max(goal, low_), high_));
    rounded[i] = (code - zero) * scales_[begin + i];
    codes[i] = static_cast<uint8_t>(static_cast<unsigned>(static_cast<int>(code)) & mask);
  }
}

void AffineRounder::decode(int64_t column, int64_t first, std::span<const uint8_t> codes,
                           std::span<float> values) const {
  const size_t begin = at(column, first);
  const int half = 1 << (bits_ - 1);
  for (size_t i = 0; i < codes.size(); ++i) {
    const int number = codes[i] < half ? codes[i] : codes[i] - 2 * half;
    values[i] = (static_cast<float>(number) - zeros_[begin + i]) * scales_[begin + i];
  }
}

PaletteRounder::PaletteRounder(const CodeBlocks& blocks, int bits, std::vector<float> tables)
    : blocks_(blocks), entries_(size_t{1} << bits), tables_(std::move(tables)) {}

template <class Visit>
void PaletteRounder::for_tables(int64_t column, int64_t first, size_t count, Visit visit) const {
  const int64_t across = column / blocks_.block_columns;
  const int64_t end = first + static_cast<int64_t>(count);
  for (int64_t row = first; row < end;) {
    const int64_t down = row / blocks_.block_rows;
    const int64_t stop = std::min(end, (down + 1) * blocks_.block_rows);
    visit(table(blocks_.place(down, across)), static_cast<size_t>(row - first),
          static_cast<size_t>(stop - row));
    row = stop;
  }
}

void PaletteRounder::round(int64_t column, int64_t first, std::span<const float> values,
                           std::span<uint8_t> codes, std::span<float> rounded) const {
  for_tables(column, first, values.size(),
             [&](std::span<const float> table, size_t begin, size_t count) {
               const auto from = values.subspan(begin, count);
               const auto to = codes.subspan(begin, count);
               if (entries_ <= kFewEntries)
                 count_middles(table, from, to);
               else
                 std::transform(from.begin(), from.end(), to.begin(),
                                [&](float value) { return nearest_entry(value, table); });
               for (size_t i = 0; i < count; ++i) rounded[begin + i] = table[to[i]];
             });
}

void PaletteRounder::decode(int64_t column, int64_t first, std::span<const uint8_t> codes,
                            std::span<float> values) const {
  for_tables(column, first, codes.size(),
             [&](std::span<const float> table, size_t begin, size_t count) {
               for (size_t i = begin; i < begin + count; ++i) values[i] = table[codes[i]];
             });
}

}  // namespace moec
