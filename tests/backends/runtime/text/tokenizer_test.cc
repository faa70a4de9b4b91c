#include "backends/runtime/text/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/files.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

std::string folder_with(const std::string& tokenizer_json) {
  std::string folder = testing::TempDir() + "/tokenizer_test." + running_test();
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/tokenizer.json") << tokenizer_json;
  return folder;
}

TEST(Tokenizer, TinymoeTokensAreBytes) {
  auto kind = detect_tokenizer(source_dir() + "/models/tinymoe");
  ASSERT_TRUE(kind) << render(kind.error());
  EXPECT_EQ(*kind, TokenizerKind::bytes);
}

TEST(Tokenizer, OtherVocabulariesAreNotBytes) {
  auto kind = detect_tokenizer(
      folder_with(R"({"model": {"type": "BPE", "merges": [], "vocab": {"a": 0}}})"));
  ASSERT_TRUE(kind);
  EXPECT_EQ(*kind, TokenizerKind::none);
}

TEST(Tokenizer, AMissingFileIsNone) {
  EXPECT_EQ(*detect_tokenizer(testing::TempDir() + "/nowhere"), TokenizerKind::none);
}

TEST(Tokenizer, AMalformedFileIsAnErrorThatNamesIt) {
  for (const std::string& text :
       {std::string("{"), std::string("{} x"), std::string("{}\0x", 4), std::string("[]"),
        std::string(R"({"a": 1, "a": 2})"), std::string(R"({"a": 99999999999999999999})")}) {
    auto kind = detect_tokenizer(folder_with(text));
    ASSERT_FALSE(kind) << text;
    EXPECT_EQ(kind.error()[0].code, "tokenizer.malformed");
    EXPECT_TRUE(kind.error()[0].place.file.ends_with("/tokenizer.json"));
  }
}

TEST(Tokenizer, RoundTrip) {
  const std::string text = "H\xc3\xa9llo\n\x01";
  EXPECT_EQ(decode_bytes(encode_bytes(text)), text);
}

}  // namespace
}  // namespace moec
