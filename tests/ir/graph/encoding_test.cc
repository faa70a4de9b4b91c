#include "ir/graph/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moec {
namespace {

std::string code_of(const Encoding& encoding, const Type& type) {
  const Status status = check_encoding(encoding, type);
  return status ? "" : status.error().front().code;
}

TEST(Encoding, CountsBytesOfCodesAndParameters) {
  const Type type{DType::f16, {32, 96}};
  EXPECT_EQ(stored_bytes(PlainEncoding{}, type), 32 * 96 * 2);
  EXPECT_EQ(stored_bytes(AffineEncoding{8, {1, 96}}, type), 32 * 96 + 32 * 2);
  EXPECT_EQ(stored_bytes(AffineEncoding{4, {1, 32}}, type), 32 * 96 / 2 + 32 * 3 * 2);
  EXPECT_EQ(stored_bytes(AffineEncoding{4, {1, 32}, true}, type),
            32 * 96 / 2 + 32 * 3 * 2 + 32 * 3 / 2);
  EXPECT_EQ(stored_bytes(AffineEncoding{4, {1, 64}}, type), 32 * 128 / 2 + 32 * 2 * 2);
  EXPECT_EQ(stored_bytes(PaletteEncoding{4, {16, 96}}, type), 32 * 96 / 2 + 2 * 16 * 2);
  EXPECT_EQ(stored_bytes(PaletteEncoding{3, {1, 5}}, {DType::f32, {31, 5}}), 59 + 31 * 8 * 4);
}

TEST(Encoding, KeepsTheTypeInDecodedViews) {
  const Type type{DType::f16, {31, 5}};
  for (const Encoding& encoding :
       {Encoding(AffineEncoding{4, {1, 5}, true}), Encoding(PaletteEncoding{3, {31, 1}})}) {
    std::vector<WeightView> parts;
    for (const StoredPart& part : stored_parts(encoding, type))
      parts.push_back(tensor_view(std::string(enum_name(part.part)), part.type));
    EXPECT_EQ(view_type(decoded_view(encoding, type, parts)), type) << to_string(encoding);
  }
}

TEST(Encoding, PrintsBlocks) {
  EXPECT_EQ(to_string(Encoding()), "plain");
  EXPECT_EQ(to_string(Encoding(AffineEncoding{8, {1, 128}})), "affine(8; 1, 128)");
  EXPECT_EQ(to_string(Encoding(AffineEncoding{4, {1, 32}, true})), "affine(4; 1, 32; zero)");
  EXPECT_EQ(to_string(Encoding(PaletteEncoding{4, {16, 128}})), "palette(4; 16, 128)");
}

TEST(EncodingErrors, C3RejectsUnsupportedBits) {
  const Type type{DType::f16, {4, 8}};
  EXPECT_EQ(code_of(AffineEncoding{3, {1, 8}}, type), "weight.c3");
  EXPECT_EQ(code_of(PaletteEncoding{5, {1, 8}}, type), "weight.c3");
  EXPECT_EQ(code_of(PaletteEncoding{1, {1, 8}}, type), "");
}

TEST(EncodingErrors, C4RejectsInvalidBlocks) {
  const Type type{DType::f16, {4, 8}};
  EXPECT_EQ(code_of(AffineEncoding{8, {3, 1}}, type), "weight.c4");
  EXPECT_EQ(code_of(AffineEncoding{8, {1, 3}}, type), "");  // the last axis allows a partial block
  EXPECT_EQ(code_of(AffineEncoding{8, {1, 1 << 17}}, type), "weight.c4");
  EXPECT_EQ(code_of(PaletteEncoding{4, {1, 3}}, type), "weight.c4");
  EXPECT_EQ(code_of(AffineEncoding{8, {8}}, type), "weight.c4");
  EXPECT_EQ(code_of(PaletteEncoding{4, {0, 8}}, type), "weight.c4");
  EXPECT_EQ(code_of(PaletteEncoding{4, {16, 8}}, type), "weight.c4");
}

TEST(EncodingErrors, C5RejectsUnsupportedTypes) {
  EXPECT_EQ(code_of(AffineEncoding{8, {4}}, {DType::u8, {4}}), "weight.c5");
  EXPECT_EQ(code_of(AffineEncoding{8, {}}, {DType::f16, {}}), "weight.c5");
  EXPECT_EQ(code_of(PaletteEncoding{4, {1, 1, 1, 1, 1}}, {DType::f16, {1, 1, 1, 1, 1}}),
            "weight.c5");
  EXPECT_EQ(code_of(PlainEncoding{}, {DType::u8, {4}}), "");
}

}  // namespace
}  // namespace moec
