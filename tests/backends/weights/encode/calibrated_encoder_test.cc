#include "backends/weights/encode/calibrated_encoder.h"

#include <cmath>
#include <limits>

#include "backends/weights/encode/code_rounders.h"
#include "backends/weights/encode/decode_parts.h"
#include "backends/weights/encode/palette_refit.h"
#include "backends/weights/encode/weight_encoder.h"
#include "backends/weights/views/convert.h"
#include "backends/weights/views/pack_bits.h"
#include "tests/backends/weights/encode/calibration_testing.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

Bytes seeded_values(const Type& type) {
  const auto values = seeded_normals(11, static_cast<size_t>(type.elements()));
  Bytes bytes(static_cast<size_t>(type.bytes()));
  encode(type.dtype, values.data(), values.size(), bytes.data());
  return bytes;
}

std::vector<Bytes> parts_of_nearest(const Encoding& encoding, const Type& type, const Bytes& values,
                                    CodeForm form = CodeForm::signed_codes) {
  WeightEncoder encoder(encoding, type, form);
  std::vector<Bytes> parts(1);
  const EncodedSink sink{[&](std::span<const std::byte> codes) -> Status {
                           parts[0].insert(parts[0].end(), codes.begin(), codes.end());
                           return {};
                         },
                         {}};
  EXPECT_TRUE(encoder.add(values, sink));
  for (const StoredPart& part : stored_parts(encoding, type))
    if (part.part != WeightPart::codes) {
      const auto bytes = encoder.parameters(part.part);
      parts.emplace_back(bytes.begin(), bytes.end());
    }
  return parts;
}

struct CodedCase {
  Encoding encoding;
  Type type;
  int64_t axis = 1;
};

std::string named(const CodedCase& one) {
  return to_string(one.encoding) + " " + to_string(one.type);
}

std::vector<CodedCase> coded_cases() {
  return {
      {AffineEncoding{8, {1, 96}}, {DType::bf16, {12, 96}}},
      {AffineEncoding{8, {12, 96}}, {DType::f16, {12, 96}}},  // one scale for all
      {AffineEncoding{4, {1, 32, 1, 1}}, {DType::f16, {8, 96, 1, 1}}},
      {AffineEncoding{4, {1, 32}, true}, {DType::f32, {7, 64}}},
      {AffineEncoding{4, {1, 32}}, {DType::f32, {8, 80}}},  // partial last block per row
      {AffineEncoding{4, {1, 32}, true}, {DType::f16, {8, 72}}},
      {AffineEncoding{4, {32, 1}}, {DType::f16, {96, 6}}, 0},  // inputs before outputs
      {AffineEncoding{4, {1, 32, 5}}, {DType::f16, {1, 64, 10}}, 1},
      {PaletteEncoding{4, {16, 40, 1, 1}}, {DType::f16, {32, 40, 1, 1}}},
      {PaletteEncoding{3, {3, 31}}, {DType::f32, {9, 31}}},
      {PaletteEncoding{2, {8, 20}}, {DType::bf16, {16, 40}}},  // two tables per row
      {PaletteEncoding{2, {40, 8}}, {DType::f16, {40, 16}}, 0},
      {PaletteEncoding{6, {15, 77}}, {DType::bf16, {30, 77}}},
      {PaletteEncoding{1, {5, 7}}, {DType::f16, {5, 7}}},
      {PaletteEncoding{2, {4, 2, 30}}, {DType::f16, {4, 2, 30}}, 2},  // outputs on two axes
  };
}

Result<CalibratedWeight> coded(const CodedCase& one, const Bytes& values, const Hessian& hessian) {
  const auto metrics = metrics_of({&hessian, 1});
  return encode_calibrated(one.encoding, one.type, values, {metrics, one.axis});
}

TEST(CalibratedEncoder, CostsLessThanNearestCodes) {
  for (const CodedCase& one : coded_cases()) {
    ASSERT_TRUE(check_encoding(one.encoding, one.type)) << named(one);
    const Bytes values = seeded_values(one.type);
    const Hessian hessian = seeded_hessian(12, one.type.dims.at(one.axis), 500);
    const auto weight = coded(one, values, hessian);
    ASSERT_TRUE(weight) << named(one) << render(weight.error());
    EXPECT_LT(weight->error, 0.8 * weight->nearest_error) << named(one);
    EXPECT_GT(weight->error, 0) << named(one);
    const auto nearest = parts_of_nearest(one.encoding, one.type, values);
    ASSERT_EQ(weight->parts.size(), nearest.size());
    for (size_t i = 0; i < nearest.size(); ++i)
      EXPECT_EQ(weight->parts[i].size(), nearest[i].size()) << named(one);
    EXPECT_NE(weight->parts[0], nearest[0]) << named(one);
  }
}

TEST(CalibratedEncoder, UsesNearestCodesWithoutTokens) {
  for (const CodedCase& one : coded_cases()) {
    const Bytes values = seeded_values(one.type);
    const auto weight = coded(one, values, empty_hessian(one.type.dims.at(one.axis)));
    ASSERT_TRUE(weight) << named(one);
    EXPECT_EQ(weight->parts, parts_of_nearest(one.encoding, one.type, values)) << named(one);
    EXPECT_EQ(weight->error, 0);
  }
}

// With uncorrelated inputs, the nearest codes of a grid are optimal.
TEST(CalibratedEncoder, WritesBothCodeForms) {
  for (const bool zero : {false, true})
    for (const int64_t inputs : {64, 80, 96}) {
      const CodedCase one{AffineEncoding{4, {1, 32}, zero}, {DType::f32, {6, inputs}}};
      const Bytes values = seeded_values(one.type);
      const Hessian none = empty_hessian(inputs);
      const auto metrics = metrics_of({&none, 1});
      const auto found =
          encode_calibrated(one.encoding, one.type, values, {metrics, 1}, CodeForm::excess);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->parts, parts_of_nearest(one.encoding, one.type, values, CodeForm::excess))
          << named(one);
    }
}

TEST(CalibratedEncoder, UsesNearestCodesWithoutCorrelations) {
  const CodedCase one{AffineEncoding{4, {1, 32}}, {DType::f16, {8, 64}}};
  Hessian hessian = empty_hessian(64);
  hessian.tokens = 100;
  for (size_t i = 0; i < 64; ++i) hessian.sums[i * 65] = static_cast<float>(1 + i);
  const Bytes values = seeded_values(one.type);
  const auto weight = coded(one, values, hessian);
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->parts, parts_of_nearest(one.encoding, one.type, values));
  EXPECT_EQ(weight->error, weight->nearest_error);
}

// Covers zero weights, zero inputs, and weights that are equal in all rows.
TEST(CalibratedEncoder, AcceptsZeroWeightsAndInputs) {
  for (const CodedCase& one : coded_cases()) {
    Bytes values = seeded_values(one.type);
    std::fill_n(values.begin(), values.size() / 2, std::byte{0});
    Hessian hessian = seeded_hessian(13, one.type.dims.at(one.axis), 50);
    const auto size = static_cast<size_t>(hessian.inputs);
    for (size_t i = 0; i < size; ++i)  // an input that is always zero
      hessian.sums[3 * size + i] = hessian.sums[i * size + 3] = 0;
    const auto weight = coded(one, values, hessian);
    ASSERT_TRUE(weight) << named(one);
    EXPECT_LE(weight->error, weight->nearest_error) << named(one);
    const Bytes zeros(values.size(), std::byte{0});
    EXPECT_EQ(coded(one, zeros, hessian)->error, 0) << named(one);
  }
}

// Two inputs and two table entries. Tries every table and every assignment of codes.
TEST(CalibratedEncoder, FindsANearOptimalTable) {
  const CodedCase one{PaletteEncoding{1, {1, 4}}, {DType::f32, {1, 4}}};
  const std::vector<float> w = {0.9F, -0.4F, 0.3F, -1.1F};
  const Hessian hessian = seeded_hessian(14, 4, 40);
  const auto weight = coded(one, bytes_of(w), hessian);
  ASSERT_TRUE(weight);
  const std::vector<float> moments = shrunk(hessian);
  double best = std::numeric_limits<double>::infinity();
  for (float low = -1.5F; low < 1.5F; low += 0.01F)
    for (float high = low; high < 1.5F; high += 0.01F)
      for (unsigned codes = 0; codes < 16; ++codes) {
        double cost = 0;
        for (size_t i = 0; i < 4; ++i)
          for (size_t j = 0; j < 4; ++j)
            cost += double((w[i] - (codes >> i & 1 ? high : low)) * moments[i * 4 + j] *
                           (w[j] - (codes >> j & 1 ? high : low)));
        best = std::min(best, cost);
      }
  EXPECT_GE(weight->error, best * 0.98);  // tables in steps of 0.01 are not optimal
  EXPECT_LE(weight->error, weight->nearest_error);
  EXPECT_LE(weight->error, best * 2);
}

TEST(CalibratedEncoder, RefitsTablesOptimally) {
  const Weights weights = seeded_weights_of(15, 8, 30);
  const std::vector<ErrorMetric> metrics = {make_metric(seeded_hessian(16, 30, 90), 0)};
  const CodeBlocks blocks{8, 30, 4, 30, false};
  PaletteCodes palette{Codes(8, 30), {-1, -0.3F, 0.3F, 1, -1, -0.3F, 0.3F, 1}};
  palette.codes = feed_errors(weights, metrics, PaletteRounder(blocks, 2, palette.tables)).codes;
  auto cost = [&](const PaletteCodes& of) {
    double sum = 0;
    const PaletteRounder rounder(blocks, 2, of.tables);
    for (double error : cost_of(weights, metrics, rounder, of.codes).errors) sum += error;
    return sum;
  };
  const double before = cost(palette);
  refit_tables({weights, metrics, blocks, DType::f32, 2}, palette);
  const double after = cost(palette);
  EXPECT_LT(after, before);
  for (size_t e = 0; e < palette.tables.size(); ++e)
    for (const float step : {-0.01F, 0.01F}) {
      PaletteCodes other = palette;
      other.tables[e] += step;
      EXPECT_GT(cost(other), after) << e;
    }
  descend_codes({weights, metrics, blocks, DType::f32, 2}, palette);
  EXPECT_LT(cost(palette), after);
}

TEST(CalibratedEncoder, AcceptsSeveralHessians) {
  const Type type{DType::f16, {16, 50}};
  const Bytes values = seeded_values(type);
  const std::vector<Hessian> hessians = {seeded_hessian(17, 30, 90), empty_hessian(20)};
  const auto metrics = metrics_of(hessians);
  const auto weight = encode_calibrated(PaletteEncoding{3, {8, 50}}, type, values, {metrics});
  ASSERT_TRUE(weight);
  EXPECT_LT(weight->error, weight->nearest_error);
}

// 600 rows form three bands, or two if 16 or 300 rows share a table.
std::vector<CodedCase> banded_cases() {
  return {
      {AffineEncoding{8, {1, 24}}, {DType::bf16, {600, 24}}},
      {AffineEncoding{4, {1, 32}, true}, {DType::f32, {600, 72}}},
      {AffineEncoding{4, {1, 32, 1, 1}}, {DType::f16, {600, 64, 1, 1}}},
      {PaletteEncoding{3, {8, 31}}, {DType::f32, {600, 31}}},
      {PaletteEncoding{2, {12, 30}}, {DType::f16, {600, 30}}},  // bands of 252 rows
      {PaletteEncoding{4, {300, 20, 1, 1}}, {DType::f16, {600, 20, 1, 1}}},
      {PaletteEncoding{2, {4, 2, 30}}, {DType::f16, {300, 2, 30}}, 2},
      {PaletteEncoding{1, {600, 7}}, {DType::f16, {600, 7}}},  // one table for all rows
  };
}

TEST(CalibratedEncoder, EncodesEquallyForAnyTileSize) {
  for (const CodedCase& one : banded_cases())
    for (const CodeForm form : {CodeForm::signed_codes, CodeForm::excess}) {
      if (form == CodeForm::excess && !std::holds_alternative<AffineEncoding>(one.encoding))
        continue;
      const Bytes values = seeded_values(one.type);
      const auto metrics =
          metrics_of(std::vector{seeded_hessian(20, one.type.dims.at(one.axis), 300)});
      const CalibratedInputs inputs{metrics, one.axis};
      const auto whole = encode_calibrated(one.encoding, one.type, values, inputs, form);
      ASSERT_TRUE(whole) << named(one);
      for (const size_t tile : {size_t{7}, size_t{4096}, values.size() - 1}) {
        const auto tiled = encode_calibrated(one.encoding, one.type, values, inputs, form, tile);
        ASSERT_TRUE(tiled) << named(one);
        EXPECT_EQ(tiled->parts, whole->parts) << named(one) << " in tiles of " << tile;
        EXPECT_EQ(tiled->error, whole->error);
      }
      EXPECT_EQ(decode_parts(one.encoding, one.type, whole->parts, form), whole->values)
          << named(one);
    }
}

// The codes of a band equal those of a separate weight with only the band's rows.
TEST(CalibratedEncoder, EncodesBandsIndependently) {
  const Type type{DType::f16, {600, 40}}, first{DType::f16, {256, 40}}, last{DType::f16, {88, 40}};
  const Encoding encoding = PaletteEncoding{3, {8, 40}};
  const Bytes values = seeded_values(type);
  const auto metrics = metrics_of(std::vector{seeded_hessian(21, 40, 300)});
  const auto whole = encode_calibrated(encoding, type, values, {metrics});
  const auto band = encode_calibrated(
      encoding, first, std::span(values).first(static_cast<size_t>(first.bytes())), {metrics});
  const auto rest = encode_calibrated(
      encoding, last, std::span(values).last(static_cast<size_t>(last.bytes())), {metrics});
  ASSERT_TRUE(whole && band && rest);
  for (size_t part = 0; part < 2; ++part) {
    const Bytes &all = whole->parts[part], &begin = band->parts[part], &end = rest->parts[part];
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(), all.begin())) << part;
    EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), all.rbegin())) << part;
  }
}

TEST(CalibratedEncoder, LimitsMemoryToFactorAndBand) {
  const int64_t square = int64_t{4} * 2048 * 2048, band = int64_t{32} * 256 * 2048;
  const Type head{DType::f16, {151936, 2048}};
  const int64_t scales = 151936 * 2;
  EXPECT_EQ(calibrated_bytes(AffineEncoding{8, {1, 2048}}, head), square + band + scales);
  const int64_t tables = 151936 / 16 * 8 * 2;
  EXPECT_EQ(calibrated_bytes(PaletteEncoding{3, {16, 2048}}, head), 2 * square + band + tables)
      << "tables are fitted with the Hessian itself";
  EXPECT_LT(calibrated_bytes(AffineEncoding{8, {1, 2048}}, head), int64_t{48} << 20);
}

// Mixtral's down matrix in 4 bits, within the memory that remains of 256 MiB.
TEST(CalibratedEncoder, SplitsInputsAboveTheMemoryLimit) {
  const AffineEncoding encoding{4, {1, 32}};
  const EncoderLimit limit{uint64_t{192} << 20};
  for (int64_t inputs : {6000, 7168, 14336, 16384, 28672}) {
    const Type down{DType::bf16, {6144, inputs}};
    const int64_t blocks = input_blocks(encoding, down, limit);
    EXPECT_LE(calibrated_bytes(encoding, down, blocks), int64_t{192} << 20) << inputs;
    EXPECT_EQ(blocks == 1, inputs == 6000) << inputs;
    if (blocks > 2)
      EXPECT_GT(calibrated_bytes(encoding, down, blocks - 1), int64_t{168} << 20) << inputs;
  }
  const Type wide{DType::bf16, {16, 1000}};
  EXPECT_EQ(input_blocks(encoding, wide, {.inputs = 1000}), 1);
  EXPECT_EQ(input_blocks(encoding, wide, {.inputs = 999}), 2);
  EXPECT_EQ(input_blocks(encoding, wide, {.inputs = 64}), 16);
  EXPECT_EQ(input_blocks(encoding, wide, {.bytes = 1}), 15) << "no block below 64 inputs";
}

// The codes of a block equal those of its columns alone, for rows where feedback helps in all
// blocks.
TEST(CalibratedEncoder, EncodesInputBlocksIndependently) {
  const Type whole{DType::f32, {70, 64}}, half{DType::f32, {70, 32}};
  const std::vector<float> values = seeded_normals(30, 70 * 64);
  std::vector<float> left;
  for (size_t row = 0; row < 70; ++row)
    left.insert(left.end(), values.begin() + static_cast<std::ptrdiff_t>(row * 64),
                values.begin() + static_cast<std::ptrdiff_t>(row * 64 + 32));
  const std::vector<Hessian> hessians{seeded_hessian(31, 32, 300), seeded_hessian(32, 32, 300)};
  const AffineEncoding encoding{4, {1, 32}};
  const auto metrics = make_metrics(hessians, MetricParts::factor);
  const auto in_blocks =
      encode_calibrated(encoding, whole, std::as_bytes(std::span(values)), {metrics});
  const auto alone = encode_calibrated(encoding, half, std::as_bytes(std::span(left)),
                                       {std::span(metrics).first(1)});
  ASSERT_TRUE(in_blocks && alone);
  EXPECT_LT(in_blocks->error, 0.95 * in_blocks->nearest_error);
  const auto begin = in_blocks->parts[0].begin(), of_half = alone->parts[0].begin();
  int same = 0;
  for (int row = 0; row < 70; ++row)
    same += std::equal(begin + row * 32, begin + row * 32 + 16, of_half + row * 16) ? 1 : 0;
  EXPECT_GT(same, 60);
}

TEST(CalibratedEncoder, RejectsInvalidHessiansAndValues) {
  const CodedCase one{AffineEncoding{4, {1, 32}}, {DType::f16, {8, 64}}};
  const Bytes values = seeded_values(one.type);
  EXPECT_EQ(coded(one, values, empty_hessian(32)).error().front().code, "calibrate.hessian_size");
  EXPECT_EQ(encode_calibrated(one.encoding, one.type, values, {}).error().front().code,
            "calibrate.hessian_size");
  const CodedCase cube{AffineEncoding{4, {1, 32, 1}}, {DType::f16, {2, 32, 4}}, 1};
  EXPECT_EQ(coded(cube, seeded_values(cube.type), empty_hessian(32)).error().front().code,
            "calibrate.shape");
  Bytes infinite = values;
  infinite[1] = std::byte{0x7c}, infinite[0] = std::byte{0};
  EXPECT_EQ(coded(one, infinite, empty_hessian(64)).error().front().code, "encode.nonfinite");
}

}  // namespace
}  // namespace moec
