#include "backends/formats/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "frontends/sources/gguf/gguf.h"
#include "tests/files.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

class GgufFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::path(testing::TempDir()) / running_test();
};

// Tensors of 1, 33, 0 and 64 bytes.
GgufLayout some_layout() {
  const auto layout = plan_gguf({{"k", true}}, {{"a", BlockType::i8, {1}},
                                                {"b", BlockType::i8, {33}},
                                                {"c", BlockType::i8, {0}},
                                                {"d", BlockType::i8, {64}}});
  EXPECT_TRUE(layout);
  return *layout;
}

std::string payload() {
  std::string bytes;
  for (char c = 0; c < 98; ++c) bytes += c;
  return bytes;
}

TEST_F(GgufFileTest, WritesEquallyForAnyPieceSize) {
  const GgufLayout layout = some_layout();
  std::string expected = layout.header;
  expected += payload().substr(0, 1) + std::string(31, '\0');
  expected += payload().substr(1, 33) + std::string(31, '\0');
  expected += payload().substr(34, 64);
  for (const size_t piece : {1u, 7u, 98u}) {
    auto file = GgufFile::create({folder_.string(), "made.gguf"}, layout);
    ASSERT_TRUE(file) << render(file.error());
    const std::string bytes = payload();
    for (size_t at = 0; at < bytes.size(); at += piece)
      ASSERT_TRUE(file->write(text_bytes(std::string_view(bytes).substr(at, piece))));
    auto complete = std::move(*file).finish();
    ASSERT_TRUE(complete) << render(complete.error());
    ASSERT_TRUE(complete->sync());
    EXPECT_FALSE(fs::exists(folder_ / "made.gguf"));
    ASSERT_TRUE(complete->publish());
    EXPECT_EQ(read_file(folder_ / "made.gguf"), expected);
    EXPECT_EQ(expected.size(), layout.file_bytes);
    fs::remove(folder_ / "made.gguf");
  }
}

TEST_F(GgufFileTest, ReadsBackSplitFiles) {
  const auto parts = plan_gguf_parts(
      "m", {{"k", true}}, {{"a", BlockType::i8, {256}}, {"b", BlockType::i8, {256}}}, 512);
  ASSERT_TRUE(parts) << render(parts.error());
  ASSERT_EQ(parts->size(), 2u);
  for (const GgufPart& part : *parts) {
    auto file = GgufFile::create({folder_.string(), part.name}, part.layout);
    ASSERT_TRUE(file->write(text_bytes(std::string(256, 'x'))));
    auto complete = std::move(*file).finish();
    ASSERT_TRUE(complete && complete->sync() && complete->publish());
  }
  const auto model = read_gguf((folder_ / parts->front().name).string());
  ASSERT_TRUE(model) << render(model.error());
  ASSERT_EQ(model->tensors.size(), 2u);
  EXPECT_EQ(model->tensors[1].name, "b");
  EXPECT_EQ(model->tensors[1].file, 1u);
  EXPECT_TRUE(*model->values.get<bool>("k"));
}

}  // namespace
}  // namespace moec
