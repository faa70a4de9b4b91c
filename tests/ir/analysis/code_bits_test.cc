#include "ir/analysis/code_bits.h"

#include <gtest/gtest.h>

#include "ir/graph/builder.h"

namespace moec {
namespace {

constexpr DType kHalf = DType::f16;

WeightView read_back(const Encoding& encoding, const Type& type, CodeForm form) {
  std::vector<WeightView> parts;
  for (const StoredPart& part : stored_parts(encoding, type, form))
    parts.push_back(tensor_view(std::string(enum_name(part.part)), part.type));
  return decoded_view(encoding, type, std::move(parts), form);
}

std::optional<int64_t> bits_of(const std::vector<Weight>& weights) {
  Builder b("s", Form::model);
  for (const Weight& weight : weights) b.output("w", b.weight(weight.view, {}, weight.encoding));
  return fewest_code_bits(b.finish());
}

TEST(CodeBits, ReturnsBitsOfEncodingsAndViews) {
  const Type type{kHalf, {8, 32}};
  const Weight plain{tensor_view("a", type)};
  EXPECT_EQ(bits_of({plain}), std::nullopt);
  EXPECT_EQ(bits_of({plain, {plain.view, AffineEncoding{8, {1, 32}, false}}}), 8);
  EXPECT_EQ(bits_of({{plain.view, AffineEncoding{8, {1, 32}, false}},
                     {plain.view, PaletteEncoding{3, {8, 32}}}}),
            3);
  for (const CodeForm form : {CodeForm::signed_codes, CodeForm::excess}) {
    EXPECT_EQ(bits_of({{read_back(AffineEncoding{8, {1, 32}, true}, type, form)}}), 8);
    EXPECT_EQ(bits_of({{read_back(AffineEncoding{4, {1, 16}, true}, type, form)}}), 4);
  }
  for (const int64_t bits : {1, 2, 3, 4, 6, 8})
    EXPECT_EQ(bits_of({{read_back(PaletteEncoding{bits, {4, 32}}, type, CodeForm::signed_codes)}}),
              bits);
}

TEST(CodeBits, ReturnsBitsOfJoinedParts) {
  const Type type{kHalf, {8, 32}};
  const WeightView four =
      read_back(AffineEncoding{4, {1, 16}, false}, type, CodeForm::signed_codes);
  EXPECT_EQ(bits_of({{concat_view(0, {tensor_view("a", type), four})}}), 4);
}

}  // namespace
}  // namespace moec
