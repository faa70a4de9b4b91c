// The values of pieces: the order of operations, and independence of the division into tiles.
#include "frontends/checkpoint/piece_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "frontends/checkpoint/counted_normal.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr CheckpointMaker kMaker{"upcycle", "upcycling"};
const Type kMatrix{DType::f32, {6, 10}};

WeightReader no_files() {
  auto reader = WeightReader::open({});
  EXPECT_TRUE(reader) << render(reader.error());
  return std::move(*reader);
}

std::string written(const TensorPiece& piece, DType dtype) {
  const WeightReader reader = no_files();
  std::string bytes;
  const Status done = PieceWriter(reader, kMaker)
                          .write(piece, dtype, [&](std::span<const std::byte> tile) -> Status {
                            bytes.append(reinterpret_cast<const char*>(tile.data()), tile.size());
                            return {};
                          });
  EXPECT_TRUE(done) << render(done.error());
  return bytes;
}

std::vector<float> floats(const TensorPiece& piece) {
  const std::string bytes = written(piece, DType::f32);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TensorPiece plain(WeightView view) { return {std::move(view), {}, {}, 1, {}}; }
TensorPiece seeded() { return plain(seeded_view(5, kMatrix)); }

TEST(PieceWriter, ScalesBeforeRounding) {
  TensorPiece piece = seeded();
  piece.factor = 3;
  const std::string bytes = written(piece, DType::bf16);
  ASSERT_EQ(bytes.size(), 120u);
  for (size_t i = 0; i < 60; ++i) {
    uint16_t value = 0;
    std::memcpy(&value, bytes.data() + 2 * i, 2);
    EXPECT_EQ(value, bf16_from_f32(3 * seeded_element(5, i))) << i;
  }
}

TEST(PieceWriter, AddsNoiseAfterScaling) {
  TensorPiece piece = seeded();
  piece.factor = 2;
  piece.noise = Noise{0.25, 9};
  const std::vector<float> values = floats(piece);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_FLOAT_EQ(values[i], static_cast<float>(2.0 * static_cast<double>(seeded_element(5, i)) +
                                                  0.25 * counted_normal(9, i)));
}

TEST(PieceWriter, AddsLowRankProducts) {
  TensorPiece piece = seeded();
  piece.low_rank =
      LowRank{seeded_view(1, {DType::f32, {6, 2}}), seeded_view(2, {DType::f32, {2, 10}}), 0.5};
  const std::vector<float> values = floats(piece);
  for (size_t row = 0; row < 6; ++row)
    for (size_t column = 0; column < 10; ++column) {
      double sum = 0;
      for (size_t r = 0; r < 2; ++r)
        sum += static_cast<double>(seeded_element(1, row * 2 + r)) *
               static_cast<double>(seeded_element(2, r * 10 + column));
      EXPECT_NEAR(values[row * 10 + column],
                  static_cast<double>(seeded_element(5, row * 10 + column)) + 0.5 * sum, 1e-6);
    }
}

// The rows and columns of a sum equal the sums of the terms' rows and columns.
TEST(PieceWriter, SlicesLowRankProducts) {
  const MatrixPart matrix{
      seeded_view(5, kMatrix),
      LowRank{seeded_view(1, {DType::f32, {6, 2}}), seeded_view(2, {DType::f32, {2, 10}}), 1}};
  const auto values = [](const MatrixPart& part) {
    return floats({part.view, part.low_rank, {}, 1, {}});
  };
  const std::vector<float> whole = values(matrix), rows = values(rows_of(matrix, 2, 3)),
                           columns = values(columns_of(matrix, 4, 5));
  for (size_t row = 0; row < 3; ++row)
    for (size_t column = 0; column < 10; ++column)
      EXPECT_EQ(rows[row * 10 + column], whole[(row + 2) * 10 + column]);
  for (size_t row = 0; row < 6; ++row)
    for (size_t column = 0; column < 5; ++column)
      EXPECT_EQ(columns[row * 5 + column], whole[row * 10 + column + 4]);
}

TEST(PieceWriter, RedrawsUnitsWithMatrixMoments) {
  const WeightView like = seeded_view(3, {DType::f32, {100, 200}});
  for (const size_t axis : {size_t{0}, size_t{1}}) {
    TensorPiece piece = plain(seeded_view(5, {DType::f32, {100, 200}}));
    std::vector<bool> units(axis == 0 ? 100 : 200);
    units[7] = units[11] = true;
    piece.redraw = Redraw{units, axis, like, 4};
    const std::vector<float> values = floats(piece);
    double squares = 0;
    int drawn = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t unit = axis == 0 ? i / 200 : i % 200;
      if (!units[unit]) {
        EXPECT_EQ(values[i], seeded_element(5, i));
        continue;
      }
      squares += static_cast<double>(values[i] * values[i]);
      ++drawn;
    }
    // Uniform values in [-1, 1) have a standard deviation of 1/√3.
    EXPECT_NEAR(std::sqrt(squares / drawn), 1 / std::sqrt(3.0), 0.06);
  }
}

TEST(PieceWriter, RejectsOverflows) {
  TensorPiece piece = plain(splat_view(60000, {DType::f32, {2}}));
  const WeightReader reader = no_files();
  const auto write = [&] {
    return PieceWriter(reader, kMaker).write(piece, DType::f16, [](std::span<const std::byte>) {
      return Status();
    });
  };
  EXPECT_TRUE(write());
  piece.factor = 2;
  ASSERT_FALSE(write());
  EXPECT_EQ(write().error().front().code, "upcycle.overflow");
  piece.noise = Noise{1, 1};
  ASSERT_FALSE(write());
}

TEST(PieceWriter, RejectsNoiseOutOfF32Range) {
  TensorPiece piece = plain(splat_view(0, {DType::f32, {64}}));
  piece.noise = Noise{1e300, 1};
  const WeightReader reader = no_files();
  const Status done =
      PieceWriter(reader, kMaker).write(piece, DType::bf16, [](std::span<const std::byte>) {
        return Status();
      });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().front().code, "upcycle.overflow");
}

}  // namespace
}  // namespace moec
