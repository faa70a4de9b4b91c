#include "backends/cpu/cpu_products.h"

#include "ir/text/text.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

// Large enough that products with one token are divided among threads; the outputs are not a
// multiple of a cache line.
constexpr int64_t kOutputs = 551, kInner = 256;

// A weight [kOutputs, kInner] in one of its stored forms.
struct WeightCase {
  const char* name;
  const char* view;
  bool is_coded = false;
  bool rounds = false;  // products with int8 activations round them
};

const WeightCase kF32{"f32", "@w:f32[551,256]"};
const WeightCase kF16{"f16", "@w:f16[551,256]"};
const WeightCase kInt8{"int8", "@c:u8[551,256] | unpack(i8) | dequant(1, 32; @s:f32[551,8])", true,
                       true};
const WeightCase kInt4{"int4",
                       "@c:u8[551,128] | unpack(u4) | dequant(1, 32; @s:f32[551,8], @z:f32[551,8])",
                       true, true};
const WeightCase kMxfp4{"mxfp4", "@c:u8[551,128] | unpack(f4_e2m1) | dequant(1, 32; @s:f32[551,8])",
                        true, true};
const WeightCase kPalette{"palette", "@c:u8[551,128] | unpack(u4) | lut(551, 256; @t:f32[1,1,16])",
                          true, false};

// A weight in a mapped file.
class MappedWeight {
 public:
  explicit MappedWeight(const WeightCase& form)
      : view_(parse_view(form.view).value()),
        reader_(WeightReader::open(write_tensors(view_, form.name)).value()),
        values_(form.is_coded ? StoredWeight::Values(reader_.map_codes(view_).value().value())
                              : StoredWeight::Values(reader_.map(view_).value().value())) {}

  StoredWeight stored(bool is_turned) const { return {values_, {.is_turned = is_turned}}; }
  std::vector<float> decoded() const { return reader_.read_f32(view_, 1 << 20).value(); }

 private:
  WeightView view_;
  WeightReader reader_;
  StoredWeight::Values values_;
};

// Activations [tokens, kInner].
std::vector<float> random_tokens(int64_t tokens) {
  std::mt19937 random(13);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<size_t>(tokens * kInner));
  for (float& value : values) value = normal(random);
  return values;
}

// Returns the columns of a [rows, columns] matrix as rows.
std::vector<float> turned(const std::vector<float>& from, int64_t rows, int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * columns + c)];
  return to;
}

// Returns tokens [tokens, kInner] times the transpose of the weight: with the weight as the left
// factor, or as the turned right factor.
std::vector<float> product(const Products& products, const Factor& weight, bool is_left,
                           const std::vector<float>& tokens) {
  const int64_t count = std::ssize(tokens) / kInner;
  std::vector<float> out(static_cast<size_t>(count * kOutputs));
  if (!is_left) {
    products.multiply({tokens.data()}, weight, true, {count, kInner, kOutputs}, out.data());
    return out;
  }
  const std::vector<float> columns = turned(tokens, count, kInner);
  products.multiply(weight, {columns.data()}, false, {kOutputs, kInner, count}, out.data());
  return turned(out, kOutputs, count);
}

std::vector<float> rounded(std::vector<float> tokens) {
  for (auto token = tokens.begin(); token != tokens.end(); token += kInner)
    round_token({token, token + kInner});
  return tokens;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  float largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-5 * largest) << i;
}

// Calls test(weight, is_left, tokens) for each number of tokens and both sides.
template <class Test>
void for_each_product(const WeightCase& form, const Test& test) {
  const MappedWeight weight(form);
  for (const bool is_left : {true, false}) {
    const StoredWeight stored = weight.stored(!is_left);
    for (const int64_t count : {1, 3, 8}) {
      SCOPED_TRACE(std::to_string(count) + (is_left ? " tokens, left" : " tokens, right"));
      test(Factor{.stored = &stored}, is_left, random_tokens(count));
    }
  }
}

class CpuProductsTest : public testing::TestWithParam<WeightCase> {};

TEST_P(CpuProductsTest, IgnoreTheNumberOfThreads) {
  for_each_product(GetParam(), [](const Factor& weight, bool is_left, const auto& tokens) {
    for (const ActivationFormat format : {ActivationFormat::f32, ActivationFormat::int8}) {
      const auto wanted = product(CpuProducts(1, format), weight, is_left, tokens);
      for (const int threads : {2, 3})
        EXPECT_EQ(product(CpuProducts(threads, format), weight, is_left, tokens), wanted);
    }
  });
}

TEST_P(CpuProductsTest, EqualProductsOfDecodedWeights) {
  const std::vector<float> values = MappedWeight(GetParam()).decoded();
  const CpuProducts products(2, ActivationFormat::f32);
  for_each_product(GetParam(), [&](const Factor& weight, bool is_left, const auto& tokens) {
    expect_near(product(products, weight, is_left, tokens),
                product(products, {values.data()}, is_left, tokens));
  });
}

// Integers are summed within a group, so only the order of summation differs.
TEST_P(CpuProductsTest, RoundActivationsLikeRoundToken) {
  const CpuProducts int8(2, ActivationFormat::int8), f32(2, ActivationFormat::f32);
  for_each_product(GetParam(), [&](const Factor& weight, bool is_left, const auto& tokens) {
    const auto found = product(int8, weight, is_left, tokens);
    if (GetParam().rounds)
      expect_near(found, product(f32, weight, is_left, rounded(tokens)));
    else
      EXPECT_EQ(found, product(f32, weight, is_left, tokens));
  });
}

// With int8 activations, other tokens in a step do not change a result. Single tokens are summed in
// another order.
TEST_P(CpuProductsTest, MultiplyInt8TokensIndependently) {
  if (!GetParam().rounds) return;
  const CpuProducts products(2, ActivationFormat::int8);
  for_each_product(GetParam(), [&](const Factor& weight, bool is_left, const auto& tokens) {
    const auto found = product(products, weight, is_left, tokens);
    for (int64_t t = 0; t + 1 < std::ssize(tokens) / kInner; ++t) {
      const auto begin = tokens.begin() + t * kInner;
      const auto pair = product(products, weight, is_left, {begin, begin + 2 * kInner});
      EXPECT_TRUE(std::equal(pair.begin(), pair.end(), found.begin() + t * kOutputs)) << t;
    }
    for (int64_t t = 0; t < std::ssize(tokens) / kInner; ++t) {
      const auto begin = tokens.begin() + t * kInner;
      const auto single = product(products, weight, is_left, {begin, begin + kInner});
      const auto at = found.begin() + t * kOutputs;
      expect_near({at, at + kOutputs}, single);
    }
  });
}

// The same weight with two tokens, and a matrix in memory that has a column per output.
TEST_P(CpuProductsTest, MultiplyTokensTogether) {
  const MappedWeight weight(GetParam());
  const StoredWeight stored = weight.stored(true);
  const std::vector<float> tokens = random_tokens(3);
  const std::vector<float> first(tokens.begin(), tokens.begin() + kInner),
      second(tokens.begin() + kInner, tokens.begin() + 2 * kInner);
  const std::vector<float> columns = turned(weight.decoded(), kOutputs, kInner);
  for (const ActivationFormat format : {ActivationFormat::f32, ActivationFormat::int8}) {
    const CpuProducts products(2, format);
    std::vector<float> out(3 * kOutputs);
    const auto to = [&](int64_t number) { return out.data() + number * kOutputs; };
    const std::vector<TokenProduct> all = {
        {{.stored = &stored}, false, first.data(), kInner, kOutputs, to(0)},
        {{.stored = &stored}, false, second.data(), kInner, kOutputs, to(1)},
        {{columns.data()}, true, second.data(), kInner, kOutputs, to(2)}};
    products.multiply_tokens(all);
    std::vector<float> wanted = product(products, {.stored = &stored}, false, first);
    const auto append = [&](const std::vector<float>& more) {
      wanted.insert(wanted.end(), more.begin(), more.end());
    };
    append(product(products, {.stored = &stored}, false, second));
    std::vector<float> by_columns(kOutputs);
    products.multiply({second.data()}, {columns.data()}, false, {1, kInner, kOutputs},
                      by_columns.data());
    append(by_columns);
    EXPECT_EQ(out, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, CpuProductsTest,
                         testing::Values(kF32, kF16, kInt8, kInt4, kMxfp4, kPalette),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace moec
