// Compares decoded blocks with reference values stored in the same file.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "backends/weights/views/weight_reader.h"
#include "frontends/sources/gguf/gguf_weights.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

// tests/peers/gguf_blocks.py writes such files, and its test sets another path with
// MOEC_GGUF_BLOCKS.
std::string blocks_path() {
  const char* other = std::getenv("MOEC_GGUF_BLOCKS");
  return other != nullptr ? other : source_dir() + "/tests/data/gguf_blocks.gguf";
}

std::vector<float> values_of(const WeightReader& reader, const WeightView& view) {
  auto values = reader.read_f32(view, uint64_t{64} << 20);
  if (!values) ADD_FAILURE() << render(values.error());
  return values.value_or(std::vector<float>{});
}

bool same_number(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST(GgufBlocks, MatchTheReferenceValues) {
  const auto model = read_gguf(blocks_path());
  ASSERT_TRUE(model) << render(model.error());
  const auto reader = WeightReader::open(gguf_weights(*model));
  ASSERT_TRUE(reader) << render(reader.error());
  size_t types = 0, elements = 0;
  for (const GgufTensor& tensor : model->tensors) {
    if (block_format(tensor.type).values != BlockValues::decoded) continue;
    const auto found = values_of(*reader, *gguf_view(*model, tensor));
    const auto expected =
        values_of(*reader, tensor_view(tensor.name + ".values", {DType::f32, tensor.dims}));
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_TRUE(same_number(found[i], expected[i]))
          << tensor.name << " element " << i << ": " << found[i] << ", not " << expected[i];
    EXPECT_EQ(tensor.name, enum_name(tensor.type));
    ++types, elements += found.size();
  }
  EXPECT_EQ(types, 23u);
  std::cout << types << " types, " << elements << " elements\n";
}

}  // namespace
}  // namespace moec
