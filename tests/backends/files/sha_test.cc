#include "backends/files/sha.h"

#include <gtest/gtest.h>

namespace moec {

namespace {

std::string sha_of(ShaKind kind, std::string_view text) {
  Sha sha(kind);
  sha.update(std::as_bytes(std::span(text)));
  return sha.finish_hex();
}

// Examples from FIPS 180 and RFC 3174.
TEST(Sha, MatchesPublishedSha1Examples) {
  const auto sha1_of = [](std::string_view text) { return sha_of(ShaKind::sha1, text); };
  EXPECT_EQ(sha1_of(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_of("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1_of(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

// Examples from FIPS 180.
TEST(Sha, MatchesPublishedSha256Examples) {
  const auto sha256_of = [](std::string_view text) { return sha_of(ShaKind::sha256, text); };
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_TRUE(is_sha256(sha256_of("")));
  EXPECT_FALSE(is_sha256(sha256_of("").substr(1)));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
}

// Every length around the block size, hashed in pieces of every size.
TEST(Sha, IgnoresPieceSizes) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(37 * i);
  for (size_t length = 50; length <= text.size(); ++length)
    for (size_t piece = 1; piece <= 70; piece += 3) {
      Sha sha(ShaKind::sha256);
      for (size_t at = 0; at < length; at += piece) {
        const std::string_view part(text.data() + at, std::min(piece, length - at));
        sha.update(std::as_bytes(std::span(part)));
      }
      ASSERT_EQ(sha.finish_hex(), sha_of(ShaKind::sha256, std::string_view(text).substr(0, length)))
          << length << " " << piece;
    }
}

}  // namespace
}  // namespace moec
