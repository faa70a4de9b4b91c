// Compares array conversions with the definitions in ir/graph/scalar.h.
#include "backends/weights/views/convert.h"

#include "backends/weights/views/convert_kernels.h"
#include "tests/backends/weights/views/testing.h"
#include "tests/vector_targets.h"

namespace moec {
namespace {

template <class T>
std::vector<T> all_values() {
  std::vector<T> values(size_t{1} << (8 * sizeof(T)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i);
  return values;
}

template <class T>
void expect_decodes(ConvertKernels::Decode kernel, float (*definition)(T)) {
  std::vector<T> values = all_values<T>();
  values.push_back(1);  // a count that no vector width divides
  std::vector<float> found(values.size());
  kernel(bytes_of(values).data(), values.size(), found.data());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(definition(values[i])))
        << "of " << i;
}

// Runs each test with every kernel version that this CPU supports.
class WeightsKernels : public testing::TestWithParam<const ConvertKernels*> {};

std::vector<const ConvertKernels*> all_kernels() {
  std::vector<const ConvertKernels*> kernels = {&portable_kernels()};
  for_each_vector_target([&] {
    if (&best_kernels() != kernels.front()) kernels.push_back(&best_kernels());
  });
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(Each, WeightsKernels, testing::ValuesIn(all_kernels()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(WeightsKernels, DecodeAllPatternsOfSmallTypes) {
  expect_decodes<uint16_t>(GetParam()->decode_f16, f32_from_f16);
  expect_decodes<uint16_t>(GetParam()->decode_bf16, f32_from_bf16);
  expect_decodes<uint8_t>(GetParam()->decode_f8_e4m3, f32_from_f8_e4m3);
}

TEST(WeightsConvert, UnpacksEachPairOfNibbles) {
  const Bytes bytes = bytes_of(all_values<uint8_t>());
  for_each_vector_target([&] {
    for (const size_t count : {bytes.size(), bytes.size() - 1, size_t{3}, size_t{0}}) {
      std::vector<float> found(2 * count);
      unpack(Packing::u4, bytes.data(), count, found.data());
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(found[2 * i], static_cast<float>(i % 16)) << i;
        ASSERT_EQ(found[2 * i + 1], static_cast<float>(i >> 4)) << i;
      }
    }
  });
}

TEST(WeightsConvert, UnpacksInBitOrder) {
  std::vector<float> found(8);
  unpack(Packing::i4_excess8, bytes_of<uint32_t>({0xFEDC8710}).data(), 1, found.data());
  EXPECT_EQ(found, (std::vector<float>{-8, -7, -1, 0, 4, 5, 6, 7}));
  found.resize(4);
  unpack(Packing::f4_e2m1, bytes_of<uint8_t>({0x7A, 0x13}).data(), 2, found.data());
  EXPECT_EQ(found, (std::vector<float>{-1, 6, 1.5F, 0.5F}));
  found.resize(2);
  unpack(Packing::f8_e8m0, bytes_of<uint8_t>({124, 130}).data(), 2, found.data());
  EXPECT_EQ(found, (std::vector<float>{0.125F, 8}));
}

TEST(WeightsConvert, DecodesIntegersAndBools) {
  std::vector<float> found(3);
  decode(DType::i64, bytes_of<int64_t>({-1, 0, 16777216}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{-1, 0, 16777216}));
  decode(DType::i32, bytes_of<int32_t>({-7, 8, 9}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{-7, 8, 9}));
  decode(DType::u8, bytes_of<uint8_t>({0, 128, 255}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{0, 128, 255}));
  decode(DType::boolean, bytes_of<uint8_t>({0, 1, 2}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{0, 1, 1}));
}

// Every f16 value, the midpoints between neighbours together with the adjacent f32 values, and
// values spread over the range of f32.
std::vector<float> hard_to_round() {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto at = std::bit_cast<uint32_t>(f32_from_f16(static_cast<uint16_t>(bits)));
    for (uint32_t near : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u})
      values.push_back(std::bit_cast<float>(at + near));
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int exponent = -26; exponent < -13; ++exponent)  // f16 subnormals and their halves
    for (uint32_t near : {0u, 1u, 0x3fffffu, 0x400000u, 0x400001u})
      values.push_back(
          std::bit_cast<float>(std::bit_cast<uint32_t>(std::ldexp(1.0f, exponent)) + near));
  return values;
}

void expect_encodes(ConvertKernels::Encode kernel, uint16_t (*definition)(float),
                    uint16_t infinity) {
  const std::vector<float> values = hard_to_round();
  Bytes found(values.size() * 2);
  const uint64_t overflows = kernel(values.data(), values.size(), found.data());
  uint64_t expected_overflows = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, found.data() + 2 * i, 2);
    ASSERT_EQ(bits, definition(values[i])) << "of " << values[i];
    if (std::isfinite(values[i]) && (bits & 0x7fff) == infinity) ++expected_overflows;
  }
  EXPECT_EQ(overflows, expected_overflows);
  EXPECT_GT(overflows, 0u);
}

TEST_P(WeightsKernels, EncodeAsDefined) {
  expect_encodes(GetParam()->encode_f16, f16_from_f32, 0x7c00);
  expect_encodes(GetParam()->encode_bf16, bf16_from_f32, 0x7f80);
}

TEST_P(WeightsKernels, CountOverflowsOfScale) {
  const std::vector<float> few = {1e30f, -1e30f, 1.0f, INFINITY, NAN};
  std::vector<float> values;
  for (int i = 0; i < 4; ++i) values.insert(values.end(), few.begin(), few.end());
  EXPECT_EQ(GetParam()->scale(1e20f, values.data(), values.size()), 8u);
  for (size_t i = 0; i < values.size(); i += 5) {
    EXPECT_EQ(values[i], INFINITY);
    EXPECT_EQ(values[i + 1], -INFINITY);
    EXPECT_EQ(values[i + 2], 1e20f);
  }
}

TEST_P(WeightsKernels, MultiplyElementwiseAndCountOverflows) {
  std::vector<float> values, factors, products;
  for (int i = 0; i < 21; ++i) {
    values.push_back(i % 5 == 0 ? 1e30f : 0.1f * static_cast<float>(i));
    factors.push_back(i % 5 == 0 ? 1e20f : 0.3f * static_cast<float>(i));
    products.push_back(values.back() * factors.back());
  }
  EXPECT_EQ(GetParam()->multiply(factors.data(), values.data(), values.size()), 5u);
  EXPECT_EQ(values, products);
}

TEST_P(WeightsKernels, CountEquallyInEveryKernel) {
  const auto halves = bytes_of(all_values<uint16_t>());
  for (uint16_t least : {uint16_t{1}, uint16_t{0x7c00}, uint16_t{0x7c01}, uint16_t{0x7f81}})
    EXPECT_EQ(GetParam()->count_from_16(halves.data(), 0xffff, least),
              portable_kernels().count_from_16(halves.data(), 0xffff, least));
  const auto floats = bytes_of(hard_to_round());
  for (uint32_t least : {0x1u, 0x7f800000u, 0x7f800001u})
    EXPECT_EQ(GetParam()->count_from_32(floats.data(), floats.size() / 4 - 1, least),
              portable_kernels().count_from_32(floats.data(), floats.size() / 4 - 1, least));
}

template <class T>
void expect_counts(DType dtype, float (*definition)(T)) {
  const std::vector<T> values = all_values<T>();
  uint64_t nonfinite = 0;
  for (T value : values) nonfinite += std::isfinite(definition(value)) ? 0 : 1;
  EXPECT_EQ(count_nonfinite(dtype, bytes_of(values).data(), values.size()), nonfinite);
}

TEST(WeightsConvert, CountsNansAndInfinities) {
  expect_counts<uint16_t>(DType::f16, f32_from_f16);
  expect_counts<uint16_t>(DType::bf16, f32_from_bf16);
  expect_counts<uint8_t>(DType::f8_e4m3, f32_from_f8_e4m3);
  const std::vector<float> values = {0, -0.0f, 3e38f, INFINITY, -INFINITY, NAN, -NAN};
  EXPECT_EQ(count_nonfinite(DType::f32, bytes_of(values).data(), values.size()), 4u);
  EXPECT_EQ(count_nonfinite(DType::i64, bytes_of<int64_t>({-1}).data(), 1), 0u);
}

}  // namespace
}  // namespace moec
