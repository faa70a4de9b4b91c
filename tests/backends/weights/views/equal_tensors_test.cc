#include "backends/weights/views/equal_tensors.h"

#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

// One file with two equal tensors; the second begins at an odd offset.
struct TwoTensors {
  static constexpr int64_t kElements = (int64_t{1} << 20) + 3;  // more than one block

  explicit TwoTensors(const std::string& file_name) : name(file_name) {
    const auto size = static_cast<size_t>(2 * kElements);
    bytes.resize(2 * size + 1);
    for (size_t i = 0; i < size; ++i)
      bytes[i] = bytes[size + 1 + i] = static_cast<std::byte>(i * 7 % 251);
    a = {0, 0, {DType::bf16, {kElements}}};
    b = {0, size + 1, a.type};
  }

  Result<bool> compare() const {
    WeightTable table;
    table.files = {{write_file(name, bytes), bytes.size()}};
    return equal_tensors(table, a, b);
  }

  std::string name;
  Bytes bytes;
  TensorRange a, b;
};

TEST(EqualTensors, ComparesAllBlocks) {
  TwoTensors tensors("equal_tensors");
  EXPECT_EQ(tensors.compare(), true);
  tensors.bytes.back() ^= std::byte{1};
  EXPECT_EQ(tensors.compare(), false);
}

TEST(EqualTensors, ReportsAChangedFile) {
  const TwoTensors tensors("equal_tensors_changed");
  WeightTable table;
  table.files = {{write_file(tensors.name, tensors.bytes), tensors.bytes.size() + 1}};
  const Result<bool> equal = equal_tensors(table, tensors.a, tensors.b);
  ASSERT_FALSE(equal.has_value());
  EXPECT_EQ(code_of(equal.error()), "weights.file_changed");
}

}  // namespace
}  // namespace moec
