// Quantized weights: kernels must decode the same bits as the reader, which decodes element by
// element.
#include "backends/weights/views/coded_rows.h"

#include "backends/weights/views/mapped_view.h"
#include "ir/text/text.h"
#include "tests/backends/weights/views/testing.h"
#include "tests/vector_targets.h"

namespace moec {
namespace {

struct RowsCase {
  const char* name;
  const char* view;        // over the tensors c (codes), s (scales), z (offsets) and t (tables)
  bool is_coded = true;    // whether kernels decode the view
  bool multiplies = true;  // whether kernels multiply the codes without decoding them
};

class CodedRowsTest : public testing::TestWithParam<RowsCase> {};

TEST_P(CodedRowsTest, MatchTheReaderBitForBit) {
  const WeightView view = parse_view(GetParam().view).value();
  const WeightReader reader = WeightReader::open(write_tensors(view, GetParam().name)).value();
  const std::vector<float> wanted = reader.read_f32(view, 1 << 20).value();
  const auto mapped = reader.map_codes(view).value();
  ASSERT_EQ(mapped.has_value(), GetParam().is_coded);
  if (!mapped) return;
  const MappedRead guard(mapped->range());
  const auto count = std::ssize(wanted);
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const int64_t begin = round == 0 ? 0 : static_cast<int64_t>(random()) % count;
    const int64_t size = round == 0 ? count : 1 + static_cast<int64_t>(random()) % (count - begin);
    std::vector<float> values(static_cast<size_t>(size));
    mapped->widen(begin, size, values.data());
    // Compares bits, because MXFP4 scales may be NaN.
    ASSERT_EQ(std::memcmp(values.data(), wanted.data() + begin, values.size() * sizeof(float)), 0)
        << begin << ", " << size;
  }
}

// Weights of coded rows, and tokens to multiply them by.
struct Factors {
  const MappedView& mapped;
  std::vector<float> weights, tokens;

  int64_t columns() const { return mapped.rows().columns; }
  int64_t rows() const { return std::ssize(weights) / columns(); }
  int64_t count() const { return std::ssize(tokens) / columns(); }
  std::span<const float> token(int64_t t) const {
    return std::span(tokens).subspan(static_cast<size_t>(t * columns()),
                                     static_cast<size_t>(columns()));
  }
  std::span<const float> row(int64_t r) const {
    return std::span(weights).subspan(static_cast<size_t>(r * columns()),
                                      static_cast<size_t>(columns()));
  }
};

// Compares the products of a token with sums of decoded values in f64.
void expect_products(const Factors& factors, int64_t t, ActivationFormat format,
                     const float* products) {
  std::vector<float> token(factors.token(t).begin(), factors.token(t).end());
  if (format == ActivationFormat::int8) round_token(token);
  for (int64_t r = 0; r < factors.rows(); ++r) {
    double sum = 0, magnitude = 0;
    for (size_t c = 0; c < token.size(); ++c) {
      const double product = static_cast<double>(factors.row(r)[c]) * token[c];
      sum += product;
      magnitude += std::abs(product);
    }
    // MXFP4 scales may be NaN, or so large that sums overflow.
    if (!(magnitude < 1e37)) continue;
    EXPECT_NEAR(products[r], sum, 1e-6 * magnitude) << r;
  }
}

std::optional<CodedToken> arrange(const CodedRows& rows, const float* token,
                                  ActivationFormat format) {
  const auto as = arrangement_of(rows, format);
  if (!as) return std::nullopt;
  return arranged({token, static_cast<size_t>(rows.columns)}, *as);
}

void expect_single_products(const Factors& factors, ActivationFormat format) {
  const CodedRows& rows = factors.mapped.rows();
  const auto token = arrange(rows, factors.tokens.data(), format);
  ASSERT_TRUE(token);
  std::vector<float> products(static_cast<size_t>(factors.rows()));
  ASSERT_TRUE(
      dot_coded_rows(rows, factors.mapped.held(), {0, factors.rows()}, *token, products.data()));
  expect_products(factors, 0, token->format, products.data());
}

// Multiplies all rows but the first, so that the last tile has fewer rows than others.
void expect_several_products(const Factors& factors) {
  const CodedRows& rows = factors.mapped.rows();
  const Arrangement as = arrangement_of(rows, ActivationFormat::int8).value();
  if (as.format != ActivationFormat::int8) return;
  CodedTokens tokens;
  tokens.reset(rows.columns, factors.count(), as.bits);
  for (int64_t block = 0; block < tokens.blocks(); ++block)
    tokens.set_block(block, factors.token(block * kTokenBlock).data());
  const int64_t stride = factors.rows() + 3;
  std::vector<float> products(static_cast<size_t>(factors.count() * stride));
  ASSERT_TRUE(
      dot_coded_rows(rows, factors.mapped.held(), {0, 1}, tokens, {products.data(), stride}));
  ASSERT_TRUE(dot_coded_rows(rows, factors.mapped.held(), {1, factors.rows() - 1}, tokens,
                             {products.data() + 1, stride}));
  for (int64_t t = 0; t < factors.count(); ++t)
    expect_products(factors, t, ActivationFormat::int8, products.data() + t * stride);
}

TEST_P(CodedRowsTest, MultiplyLikeTheirValues) {
  const WeightView view = parse_view(GetParam().view).value();
  const WeightReader reader = WeightReader::open(write_tensors(view, GetParam().name)).value();
  const auto mapped = reader.map_codes(view).value();
  if (!mapped) return;
  const MappedRead guard(mapped->range());
  Factors factors{*mapped, reader.read_f32(view, 1 << 20).value(), {}};
  factors.tokens.resize(static_cast<size_t>(6 * mapped->rows().columns));
  std::mt19937 random(11);
  for (float& x : factors.tokens) x = static_cast<float>(random() % 2000) / 500.0f - 2.0f;
  ASSERT_EQ(arrange(mapped->rows(), factors.tokens.data(), ActivationFormat::f32).has_value(),
            GetParam().multiplies);
  if (!GetParam().multiplies) return;
  for_each_vector_target([&] {
    for (const ActivationFormat format : {ActivationFormat::f32, ActivationFormat::int8})
      expect_single_products(factors, format);
    expect_several_products(factors);
  });
}

// Of an export in f16. Its products with f32 activations are those of the rounded values.
TEST(CodedRows, KeepIntegersOfRoundedValues) {
  const WeightView view =
      parse_view("@c:u8[4,32] | unpack(u4) | dequant(1, 32; @s:f32[4,2]) | cast(f16)").value();
  const WeightReader reader = WeightReader::open(write_tensors(view, "rounded")).value();
  const auto mapped = reader.map_codes(view).value();
  ASSERT_TRUE(mapped);
  const MappedRead guard(mapped->range());
  const std::vector<float> token(64, 1.0f), weights = reader.read_f32(view, 1 << 20).value();
  EXPECT_FALSE(arrange(mapped->rows(), token.data(), ActivationFormat::f32));
  const auto rounded = arrange(mapped->rows(), token.data(), ActivationFormat::int8);
  ASSERT_TRUE(rounded);
  EXPECT_EQ(rounded->format, ActivationFormat::int8);
  std::vector<float> products(4);
  ASSERT_TRUE(dot_coded_rows(mapped->rows(), mapped->held(), {0, 4}, *rounded, products.data()));
  for (size_t r = 0; r < products.size(); ++r) {
    float sum = 0, magnitude = 0;
    for (size_t c = 0; c < token.size(); ++c) {
      sum += weights[r * token.size() + c];
      magnitude += std::abs(weights[r * token.size() + c]);
    }
    EXPECT_NEAR(products[r], sum, 5e-4f * magnitude) << r;
  }
}

TEST(RoundToken, RoundsToTheNearestCode) {
  std::vector<float> token(40, 0.0f);
  token[3] = -127.0f;
  token[4] = 2.6f;
  token[35] = 1e-3f;
  round_token(token);
  EXPECT_EQ(token[3], -127.0f);
  EXPECT_EQ(token[4], 3.0f);
  EXPECT_EQ(token[5], 0.0f);
  EXPECT_NEAR(token[35], 1e-3f, 1e-9f);
}

TEST(RoundToken, KeepsInfinitiesVisible) {
  std::vector<float> token(64, 1.0f);
  token[0] = std::numeric_limits<float>::infinity();
  token[40] = std::numeric_limits<float>::quiet_NaN();
  round_token(token);
  EXPECT_TRUE(std::isnan(token[1]));
  EXPECT_TRUE(std::isnan(token[33]));
}

TEST(RoundToken, AcceptsDenormalGroups) {
  std::vector<float> token(32, std::numeric_limits<float>::denorm_min());
  round_token(token);
  for (const float x : token) EXPECT_EQ(x, 0.0f);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, CodedRowsTest,
    testing::Values(
        RowsCase{"u4_blocks",
                 "@c:u8[320] | unpack(u4) | reshape(10, 64) | dequant(1, 32; "
                 "@s:f32[10,2], splat(8):f32[10,2])"},
        RowsCase{"u4_zeros",
                 "@c:u8[10,32] | unpack(u4) | dequant(1, 16; @s:f16[10,4] | "
                 "cast(f32), @z:u8[10,2] | unpack(u4))",
                 true, false},
        RowsCase{"u4_tail",
                 "@c:u8[10,37] | unpack(u4) | dequant(1, 32; @s:f32[10,3], @z:f32[10,3])"},
        RowsCase{"u8_tail",
                 "@c:u8[10,75] | unpack(u8) | dequant(1, 32; @s:f32[10,3], @z:f32[10,3])"},
        RowsCase{"u4_odd_zeros",
                 "@c:u8[10,24] | unpack(u4) | dequant(1, 16; @s:f32[10,3], "
                 "@z:u8[15] | unpack(u4) | reshape(10, 3))",
                 true, false},
        RowsCase{"i4_conv",
                 "@c:u8[320] | unpack(i4) | reshape(10, 64, 1, 1) | dequant(1, 64, 1, "
                 "1; @s:f32[10,1,1,1])"},
        RowsCase{"i8_rows",
                 "@c:u8[640] | unpack(i8) | reshape(10, 64) | dequant(1, 64; "
                 "@s:f32[10,1])"},
        RowsCase{"i8_tensor", "@c:u8[10,50] | unpack(i8) | dequant(10, 50; @s:f32[1,1])"},
        RowsCase{"u8_f16",
                 "@c:u8[10,50] | unpack(u8) | dequant(1, 20; @s:f32[10,3], "
                 "@z:f32[10,3]) | cast(f16)",
                 true, false},
        RowsCase{"mxfp4",
                 "@c:u8[8,32] | unpack(f4_e2m1) | dequant(1, 32; @s:u8[8,2] | "
                 "unpack(f8_e8m0))"},
        RowsCase{"f4_zeros",
                 "@c:u8[8,32] | unpack(f4_e2m1) | dequant(1, 32; @s:f32[8,2], @z:f32[8,2])"},
        RowsCase{"u8_centered",
                 "@c:u8[4,2048] | unpack(u8) | dequant(1, 2048; @s:f32[4,1], splat(128):f32[4,1])"},
        RowsCase{"u4_short",
                 "@c:u8[16,48] | unpack(u4) | dequant(1, 32; @s:f32[16,3], @z:f32[16,3])"},
        // More blocks than fit in a buffer, in one row and in several.
        RowsCase{"u4_long",
                 "@c:u8[3,4112] | unpack(u4) | dequant(1, 32; @s:f32[3,257], @z:f32[3,257])"},
        RowsCase{"u4_bands",
                 "@c:u8[40,128] | unpack(u4) | dequant(1, 32; @s:f16[40,8] | cast(f32), "
                 "@z:f32[40,8])"},
        RowsCase{"u8_square",
                 "@c:u8[8,64] | unpack(u8) | dequant(4, 32; @s:f32[2,2], @z:f32[2,2])"},
        RowsCase{"lut4_columns", "@c:u8[4,32] | unpack(u4) | lut(2, 32; @t:f32[2,2,16])"},
        RowsCase{"lut4",
                 "@c:u8[160] | unpack(u4) | reshape(8, 40, 1, 1) | lut(4, 40, 1, 1; "
                 "@t:f16[2,1,1,1,16]) | cast(f16)"},
        RowsCase{"lut4_f32",
                 "@c:u8[160] | unpack(u4) | reshape(8, 40) | lut(4, 40; @t:f32[2,1,16])"},
        RowsCase{"lut1", "@c:u8[8,72] | unpack(u1) | lut(8, 576; @t:f32[1,1,2])"},
        RowsCase{"lut2", "@c:u8[80] | unpack(u2) | reshape(8, 40) | lut(8, 40; @t:f32[1,1,4])"},
        RowsCase{"lut2_columns",
                 "@c:u8[8,48] | unpack(u2) | lut(4, 96; @t:f16[2,2,4]) | cast(f16)"},
        RowsCase{"lut3", "@c:u8[8,216] | unpack(u3) | lut(2, 576; @t:f32[4,1,8])"},
        RowsCase{"lut3_bits",
                 "@c:u8[123] | unpack(u3) | reshape(8, 41) | lut(8, 41; @t:f32[1,1,8])", true,
                 false},
        RowsCase{"lut6", "@c:u8[240] | unpack(u6) | reshape(8, 40) | lut(2, 40; @t:f32[4,1,64])"},
        RowsCase{"lut6_long", "@c:u8[8,435] | unpack(u6) | lut(2, 580; @t:f32[4,1,64])"},
        RowsCase{"lut8", "@c:u8[8,140] | unpack(u8) | lut(8, 140; @t:f32[1,1,256])"},
        RowsCase{"experts",
                 "@c:u8[4,8,16] | unpack(u4) | slice(0, 1, 1) | reshape(8, 32) | "
                 "dequant(1, 32; @s:f32[8,1])"},
        RowsCase{"turned",
                 "@c:u8[8,16] | unpack(u4) | dequant(1, 32; @s:f32[8,1]) | "
                 "permute(1, 0)",
                 false}),
    [](const auto& info) { return std::string(info.param.name); });

// A code outside its table is an error, which kernels do not check.
TEST(CodedRows, LeaveShortTablesToTheReader) {
  const auto view = parse_view("@c:u8[8,16] | unpack(u1) | lut(8, 128; @t:f32[1,1,1])").value();
  const auto reader = WeightReader::open(write_tensors(view, "short")).value();
  EXPECT_FALSE(reader.map_codes(view).value());
}

// Bytes missing from a slot must not be replaced by other bytes.
TEST(CodedRows, FailIfBytesAreMissing) {
  const std::array<std::byte, 16> bytes{};
  CodedRows rows{.codes = {{0, 100}, Packing::u4, 0}, .columns = 32, .block_columns = 32};
  rows.scales = StoredNumbers{{}, 1.0f, 0};
  std::array<float, 32> values{};
  EXPECT_TRUE(decode_rows(rows, HeldBytes({{100, 16, bytes.data()}}), 0, 32, values.data()));
  EXPECT_FALSE(decode_rows(rows, HeldBytes({{100, 15, bytes.data()}}), 0, 32, values.data()));
  EXPECT_FALSE(decode_rows(rows, HeldBytes({{0, 16, bytes.data()}}), 0, 32, values.data()));
  const CodedToken token = arrange(rows, values.data(), ActivationFormat::f32).value();
  float product = 0;
  const auto dot = [&](const HeldPiece& piece) {
    return dot_coded_rows(rows, HeldBytes({piece}), {0, 1}, token, &product);
  };
  EXPECT_TRUE(dot({100, 16, bytes.data()}));
  EXPECT_FALSE(dot({100, 15, bytes.data()}));
  EXPECT_FALSE(dot({0, 16, bytes.data()}));
}

// Kernels read whole vectors, but no bytes after the codes, which AddressSanitizer checks.
TEST(CodedRows, ReadNothingAfterTheirCodes) {
  for (const Packing packing :
       {Packing::u1, Packing::u2, Packing::u3, Packing::u4, Packing::u6, Packing::u8}) {
    for (const int64_t columns : {32, 64, 96, 256, 544}) {
      const std::vector<std::byte> bytes(
          static_cast<size_t>(2 * columns / 8 * number_bits(packing)));
      CodedRows rows{.codes = {{}, packing}, .columns = columns, .block_columns = columns};
      rows.table = StoredNumbers{{}, 2.0f};
      rows.entries = 256;
      const std::vector<float> token(static_cast<size_t>(columns), 1.0f);
      for_each_vector_target([&] {
        const auto one = arrange(rows, token.data(), ActivationFormat::f32).value();
        std::array<float, 2> out{};
        ASSERT_TRUE(dot_coded_rows(rows, HeldBytes({{0, bytes.size(), bytes.data()}}), {0, 2}, one,
                                   out.data()));
        EXPECT_EQ(out[1], 2.0f * static_cast<float>(columns)) << number_bits(packing) << " bits";
      });
    }
  }
}

}  // namespace
}  // namespace moec
