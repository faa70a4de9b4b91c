#include "backends/weights/encode/weight_encoder.h"

#include <cmath>
#include <limits>
#include <random>

#include "backends/weights/encode/affine.h"
#include "backends/weights/encode/decode_parts.h"
#include "backends/weights/views/convert.h"
#include "backends/weights/views/weight_reader.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

Bytes bell_of(const Type& type) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(static_cast<size_t>(type.elements()));
  for (float& value : values) value = normal(random);
  Bytes bytes(static_cast<size_t>(type.bytes()));
  encode(type.dtype, values.data(), values.size(), bytes.data());
  return bytes;
}

std::vector<float> floats_of(const Type& type, const Bytes& bytes) {
  std::vector<float> values(static_cast<size_t>(type.elements()));
  decode(type.dtype, bytes.data(), values.size(), values.data());
  return values;
}

// Returns the stored parts in order.
std::vector<Bytes> encode_in_tiles(const Encoding& encoding, const Type& type, const Bytes& values,
                                   size_t tile_elements, CodeForm form = CodeForm::signed_codes) {
  WeightEncoder encoder(encoding, type, form);
  std::vector<Bytes> parts(1);
  const size_t tile = tile_elements * static_cast<size_t>(dtype_bytes(type.dtype));
  for (size_t at = 0; at < values.size(); at += tile) {
    const auto status =
        encoder.add(std::span(values).subspan(at, std::min(tile, values.size() - at)),
                    {[&](std::span<const std::byte> codes) -> Status {
                       parts[0].insert(parts[0].end(), codes.begin(), codes.end());
                       return {};
                     },
                     {}});
    EXPECT_TRUE(status);
  }
  for (const StoredPart& part : stored_parts(encoding, type))
    if (part.part != WeightPart::codes) {
      const auto bytes = encoder.parameters(part.part);
      parts.emplace_back(bytes.begin(), bytes.end());
    }
  return parts;
}

// Returns the values that a reader decodes from the stored parts.
std::vector<float> decoded(const Encoding& encoding, const Type& type,
                           const std::vector<Bytes>& parts,
                           CodeForm form = CodeForm::signed_codes) {
  WeightTable table;
  Bytes file;
  std::vector<WeightView> views;
  const std::vector<StoredPart> stored = stored_parts(encoding, type, form);
  EXPECT_EQ(stored.size(), parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(stored[i].type.bytes()), parts[i].size());
    const std::string name(enum_name(stored[i].part));
    table.tensors[name] = {0, file.size(), stored[i].type};
    file.insert(file.end(), parts[i].begin(), parts[i].end());
    views.push_back(tensor_view(name, stored[i].type));
  }
  if (form == CodeForm::signed_codes)
    EXPECT_EQ(static_cast<size_t>(stored_bytes(encoding, type)), file.size());
  table.files = {{write_file("encoded.bin", file), file.size()}};
  const WeightView view = decoded_view(encoding, type, std::move(views), form);
  EXPECT_EQ(view_type(view), type);
  auto values = WeightReader::open(table)->read_f32(view, 1 << 24);
  EXPECT_TRUE(values);
  return *values;
}

double noise_to_signal(const std::vector<float>& values, const std::vector<float>& found) {
  double noise = 0, signal = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    noise += std::pow(double(values[i]) - double(found[i]), 2);
    signal += std::pow(double(values[i]), 2);
  }
  return noise / signal;
}

struct Case {
  Encoding encoding;
  Type type;
  double least_sqnr;  // dB
};

std::vector<Case> cases() {
  return {
      {AffineEncoding{8, {1, 160}}, {DType::bf16, {12, 160}}, 40},
      {AffineEncoding{8, {24, 10, 1, 1}}, {DType::f16, {24, 10, 1, 1}}, 39},
      {AffineEncoding{4, {1, 32}}, {DType::f16, {8, 96}}, 20},
      {AffineEncoding{4, {1, 32}, true}, {DType::f32, {7, 32}}, 20},
      {AffineEncoding{4, {32, 1}}, {DType::f16, {96, 6}}, 20},  // blocks are columns
      {AffineEncoding{4, {1, 32}}, {DType::f32, {9, 80}}, 19},  // partial last block per row
      {AffineEncoding{4, {1, 32}, true}, {DType::f16, {5, 77}}, 19},
      {AffineEncoding{4, {2, 64}}, {DType::f16, {6, 33}}, 17},  // a block is longer than a row
      {AffineEncoding{8, {1, 5, 3}}, {DType::f32, {2, 10, 9}}, 38},
      {PaletteEncoding{4, {16, 40, 1, 1}}, {DType::f16, {32, 40, 1, 1}}, 19.5},
      {PaletteEncoding{4, {2, 20}}, {DType::f16, {6, 40}}, 19.5},
      {PaletteEncoding{3, {3, 31}}, {DType::f32, {9, 31}}, 14},  // no band fills whole bytes
      {PaletteEncoding{6, {1, 77}}, {DType::bf16, {3, 77}}, 30},
      {PaletteEncoding{1, {5, 7}}, {DType::f16, {5, 7}}, 4},
      {PaletteEncoding{8, {4, 300}}, {DType::f16, {4, 300}}, 40},
  };
}

std::string named(const Case& one) { return to_string(one.encoding) + " " + to_string(one.type); }

TEST(WeightEncoder, RoundTripsThroughStoredParts) {
  for (const Case& one : cases()) {
    ASSERT_TRUE(check_encoding(one.encoding, one.type)) << named(one);
    const Bytes values = bell_of(one.type);
    const auto parts = encode_in_tiles(one.encoding, one.type, values, 1 << 20);
    const double noise =
        noise_to_signal(floats_of(one.type, values), decoded(one.encoding, one.type, parts));
    EXPECT_GT(-10 * std::log10(noise), one.least_sqnr) << named(one);
  }
}

TEST(WeightEncoder, RoundsToTheValuesReadersDecode) {
  for (const Case& one : cases()) {
    const Bytes values = bell_of(one.type);
    const auto parts = encode_in_tiles(one.encoding, one.type, values, 1 << 20);
    const auto rounded = rounded_values(one.encoding, one.type, values);
    ASSERT_TRUE(rounded) << named(one);
    EXPECT_EQ(*rounded, decoded(one.encoding, one.type, parts)) << named(one);
  }
}

TEST(WeightEncoder, EncodesEquallyForAnyTileSize) {
  for (const Case& one : cases()) {
    const Bytes values = bell_of(one.type);
    const auto parts = encode_in_tiles(one.encoding, one.type, values, 1 << 20);
    for (size_t tile : {1, 7, 64, 500})
      EXPECT_EQ(encode_in_tiles(one.encoding, one.type, values, tile), parts)
          << named(one) << " in tiles of " << tile;
  }
}

TEST(WeightEncoder, UsesShortestBandsOfWholeBlocks) {
  const Type rows{DType::f16, {64, 96}};
  EXPECT_EQ(band_elements(AffineEncoding{8, {1, 96}}, rows), 96);
  EXPECT_EQ(band_elements(AffineEncoding{4, {1, 32}}, rows), 32);
  EXPECT_EQ(band_elements(PaletteEncoding{4, {16, 96}}, rows), 16 * 96);
  EXPECT_EQ(band_elements(AffineEncoding{8, {64, 1}}, rows), 64 * 96);
}

// Engines that decode in f16 and engines that decode in f32 compute equal values from 4-bit codes.
TEST(WeightEncoder, DecodesInt4EquallyInF16) {
  const Encoding encoding = AffineEncoding{4, {1, 32}};
  const Type half{DType::f16, {16, 64}};
  const Bytes values = bell_of(half);
  const auto parts = encode_in_tiles(encoding, half, values, 1 << 20);
  const auto rounded = decoded(encoding, half, parts);
  const Type full{DType::f32, half.dims};
  const auto wide = floats_of(half, values);
  Bytes wide_bytes(static_cast<size_t>(full.bytes()));
  encode(DType::f32, wide.data(), wide.size(), wide_bytes.data());
  const auto exact = decoded(encoding, full, encode_in_tiles(encoding, full, wide_bytes, 1 << 20));
  EXPECT_EQ(rounded, exact);
}

TEST(WeightEncoder, RejectsNonfiniteValues) {
  for (float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    WeightEncoder encoder(AffineEncoding{8, {1, 4}}, {DType::f32, {1, 4}});
    const std::vector<float> values{1, 2, value, 4};
    const auto status = encoder.add(std::as_bytes(std::span(values)),
                                    {[](std::span<const std::byte>) -> Status { return {}; }, {}});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().front().code, "encode.nonfinite");
  }
}

TEST(WeightEncoder, DecodesBothCodeFormsEqually) {
  for (const Encoding& encoding :
       {Encoding(AffineEncoding{4, {1, 32}}), Encoding(AffineEncoding{4, {1, 32}, true})})
    for (const int64_t columns : {64, 96, 80}) {
      const Type type{DType::f32, {6, columns}};
      const Bytes values = bell_of(type);
      const auto parts = encode_in_tiles(encoding, type, values, 50);
      const auto excess = encode_in_tiles(encoding, type, values, 50, CodeForm::excess);
      EXPECT_EQ(decoded(encoding, type, excess, CodeForm::excess), decoded(encoding, type, parts));
      for (size_t i = 0; i < parts[0].size(); ++i)
        ASSERT_EQ(excess[0][i], parts[0][i] ^ std::byte{0x88});
    }
}

TEST(DecodeParts, MatchesReaders) {
  for (const Case& one : cases())
    for (const CodeForm form : {CodeForm::signed_codes, CodeForm::excess}) {
      const auto parts = encode_in_tiles(one.encoding, one.type, bell_of(one.type), 33, form);
      EXPECT_EQ(floats_of(one.type, decode_parts(one.encoding, one.type, parts, form)),
                decoded(one.encoding, one.type, parts, form))
          << named(one);
    }
}

TEST(WeightEncoder, ReturnsTheValuesReadersDecode) {
  for (const Case& one : cases()) {
    const Bytes values = bell_of(one.type);
    WeightEncoder encoder(one.encoding, one.type);
    Bytes found;
    const EncodedSink sink{[](std::span<const std::byte>) -> Status { return {}; },
                           [&](std::span<const std::byte> tile) -> Status {
                             found.insert(found.end(), tile.begin(), tile.end());
                             return {};
                           }};
    ASSERT_TRUE(encoder.add(values, sink));
    EXPECT_EQ(floats_of(one.type, found),
              decoded(one.encoding, one.type, encode_in_tiles(one.encoding, one.type, values, 7)))
        << named(one);
  }
}

// A band of 32 values would cost more in calls than in codes.
TEST(WeightEncoder, DeliversManyBandsAtOnce) {
  const Type type{DType::f32, {64, 1024}};  // 256 KiB
  WeightEncoder encoder(AffineEncoding{4, {1, 32}}, type);
  std::vector<size_t> sizes;
  const EncodedSink sink{[](std::span<const std::byte>) -> Status { return {}; },
                         [&](std::span<const std::byte> values) -> Status {
                           sizes.push_back(values.size());
                           return {};
                         }};
  ASSERT_TRUE(encoder.add(bell_of(type), sink));
  EXPECT_EQ(sizes, std::vector<size_t>(4, 64 << 10));
}

TEST(WeightEncoder, StopsAtAFailingSink) {
  WeightEncoder encoder(AffineEncoding{8, {1, 2}}, {DType::f32, {4, 2}});
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  const auto status =
      encoder.add(std::as_bytes(std::span(values)),
                  {[](auto) -> Status { return fail("emit.no_space", "the disk is full"); }, {}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().front().code, "emit.no_space");
}

}  // namespace
}  // namespace moec
