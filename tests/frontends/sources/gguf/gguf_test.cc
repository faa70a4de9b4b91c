#include "frontends/sources/gguf/gguf.h"

#include <filesystem>

#include "tests/files.h"
#include "tests/frontends/sources/gguf/gguf_bytes.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

// A model in several files; the first file has the keys.
class GgufParts : public testing::Test {
 protected:
  std::string path(int part, int count = 3) const {
    return folder_ + "/m-0000" + std::to_string(part) + "-of-0000" + std::to_string(count) +
           ".gguf";
  }
  static GgufBytes first(uint16_t count = 3, int32_t tensors = 2) {
    return GgufBytes()
        .u16("split.no", 0)
        .u16("split.count", count)
        .i32("split.tensors.count", tensors);
  }
  static GgufBytes part(uint16_t number, const std::string& tensor) {
    return GgufBytes().u16("split.no", number).tensor({tensor, {8}, 0, 0});
  }
  void SetUp() override {
    write_file(path(1), first().file(0));
    write_file(path(2), part(1, "a").u32("ignored", 1).file(32));
    write_file(path(3), part(2, "b").u32("general.alignment", 64).file(32, 64));
  }

  std::string folder_ = folder_of_test();
};

TEST_F(GgufParts, FormOneModel) {
  const auto model = read_gguf(path(1));
  ASSERT_TRUE(model) << render(model.error());
  ASSERT_EQ(model->files.size(), 3u);
  EXPECT_EQ(model->files[2].path, path(3));
  EXPECT_EQ(model->files[2].bytes, std::filesystem::file_size(path(3)));
  ASSERT_EQ(model->tensors.size(), 2u);
  EXPECT_EQ(model->tensors[0].name, "a");
  EXPECT_EQ(model->tensors[0].file, 1u);
  EXPECT_EQ(model->tensors[1].file, 2u);
  EXPECT_EQ(model->tensors[1].offset % 64, 0u);
  EXPECT_EQ(model->values.get<uint16_t>("split.count"), 3);
  EXPECT_FALSE(model->values.has("ignored"));
}

TEST_F(GgufParts, RequireTheFirstPart) {
  write_file(path(1), part(1, "x").u16("split.count", 3).file(32));
  expect_error(read_gguf(path(1)), "gguf.split_number", "pass the first file");
  write_file(path(1), GgufBytes().u16("split.count", 2).file(0));
  expect_error(read_gguf(path(1)), "gguf.missing_key", "\"split.no\"");
}

TEST_F(GgufParts, RejectMisnumberedParts) {
  write_file(path(3), part(1, "b").file(32));
  const auto model = read_gguf(path(1));
  expect_error(model, "gguf.split_number", "must be 2 at this file's position");
  EXPECT_EQ(model.error()[0].place.file, path(3));
  write_file(path(3), GgufBytes().tensor({"b", {8}, 0, 0}).file(32));
  expect_error(read_gguf(path(1)), "gguf.missing_key", "\"split.no\"");
}

TEST_F(GgufParts, RequireExactKeyTypes) {
  write_file(path(1), GgufBytes().u32("split.count", 3).file(0));
  expect_error(read_gguf(path(1)), "gguf.key_type", "expected u16");
  write_file(
      path(1),
      GgufBytes().u16("split.no", 0).u16("split.count", 3).u32("split.tensors.count", 2).file(0));
  expect_error(read_gguf(path(1)), "gguf.key_type", "expected i32");
}

TEST_F(GgufParts, RequireTheFirstPartsName) {
  const std::string other = folder_ + "/model.gguf";
  std::filesystem::rename(path(1), other);
  expect_error(read_gguf(other), "gguf.split_name", "\"-00001-of-00003.gguf\"");
  std::filesystem::rename(other, path(1, 4));
  expect_error(read_gguf(path(1, 4)), "gguf.split_name", "the first of 3 files");
}

TEST_F(GgufParts, RejectAnAbsentPart) {
  std::filesystem::remove(path(2));
  const auto model = read_gguf(path(1));
  expect_error(model, "gguf.split_part", "missing");
  EXPECT_EQ(model.error()[0].place.file, path(2));
}

TEST_F(GgufParts, RequireTheStatedTensorCount) {
  write_file(path(1), first(3, 3).file(0));
  expect_error(read_gguf(path(1)), "gguf.split_tensors",
               "have 2 tensors, but \"split.tensors.count\"");
}

TEST_F(GgufParts, RejectATensorInTwoFiles) {
  write_file(path(3), part(2, "a").file(32));
  expect_error(read_gguf(path(1)), "gguf.duplicate_tensor", "another file of the model");
}

TEST(Gguf, AcceptsASplitCountOfOne) {
  const std::string path = folder_of_test() + "/m.gguf";
  write_file(path, GgufBytes().u16("split.count", 1).tensor({"a", {8}, 0, 0}).file(32));
  const auto model = read_gguf(path);
  ASSERT_TRUE(model) << render(model.error());
  ASSERT_EQ(model->files.size(), 1U);
  EXPECT_EQ(model->files[0].path, path);
  EXPECT_EQ(model->files[0].bytes, std::filesystem::file_size(path));
}

// The header exceeds the first two reads of the reader.
TEST(Gguf, ReadsLongHeadersInSteps) {
  GgufBytes bytes;
  std::string tokens;
  for (int i = 0; i < 100'000; ++i) tokens += gguf_string("token" + std::to_string(i));
  bytes.array("tokens", GgufType::string, 100'000, tokens).u32("after", 5);
  bytes.tensor({"a", {8}, 0, 0});
  const std::string path = folder_of_test() + "/m.gguf";
  write_file(path, bytes.file(32));
  const auto model = read_gguf(path);
  ASSERT_TRUE(model) << render(model.error());
  EXPECT_EQ(model->values.get<uint32_t>("after"), 5u);
  const auto read = model->values.get_array<std::string_view>("tokens");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 100'000u);
  EXPECT_EQ(read->back(), "token99999");
}

TEST(Gguf, RejectsAFolder) { expect_error(read_gguf(folder_of_test()), "file.not_regular", ""); }

}  // namespace
}  // namespace moec
