#include "backends/files/digest.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/files.h"

namespace moec {
namespace {

std::string digest_of(std::string_view text) {
  Digest digest;
  digest.update(text_bytes(text));
  return digest.hex();
}

// The digest of an empty input is from xxHash's sanity test (XSUM_XXH128_testdata).
TEST(Digest, Is128BitXxh3) {
  EXPECT_EQ(digest_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_TRUE(is_digest(digest_of("moec")));
}

TEST(Digest, IgnoresPieceSizes) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i >> 3);
  Digest digest;
  for (size_t at = 0, piece = 1; at < text.size(); at += piece, piece = piece * 3 % 701)
    digest.update(text_bytes(std::string_view(text).substr(at, piece)));
  EXPECT_EQ(digest.hex(), digest_of(text));
  EXPECT_NE(digest.hex(), digest_of(text + "x"));
}

TEST(Digest, ReadsFilesLargerThanAPiece) {
  std::string path = testing::TempDir() + "/digest_large";
  std::string text((1 << 20) * 2 + 17, 'm');
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(digest_file(path).value(), digest_of(text));
}

TEST(Digest, ReportsUnreadableFiles) {
  std::string path = testing::TempDir() + "/digest_absent";
  std::filesystem::remove(path);
  EXPECT_EQ(digest_file(path).error()[0].code, "digest.open");
  EXPECT_EQ(digest_file(testing::TempDir()).error()[0].code, "digest.read");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // without a writer, reading would block
  EXPECT_EQ(digest_file(path).error()[0].code, "digest.read");
}

TEST(Digest, RecognizesOnlyValidDigests) {
  EXPECT_TRUE(is_digest("0123456789abcdef0123456789abcdef"));
  EXPECT_FALSE(is_digest("0123456789ABCDEF0123456789abcdef"));
  EXPECT_FALSE(is_digest("0123456789abcdef0123456789abcde"));
  EXPECT_FALSE(is_digest(""));
}

}  // namespace
}  // namespace moec
