#include <gtest/gtest.h>

#include "backends/onnx/sha1.h"

namespace moec {

namespace {

std::string sha1_of(std::string_view text) {
  Sha1 sha1;
  sha1.update(std::as_bytes(std::span(text)));
  return sha1.finish_hex();
}

// The examples of FIPS 180 and RFC 3174.
TEST(Sha1, AgreesWithThePublishedExamples) {
  EXPECT_EQ(sha1_of(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_of("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1_of(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

// Every length around the block size, in pieces of every size: as one piece.
TEST(Sha1, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(37 * i);
  for (size_t length = 50; length <= text.size(); ++length)
    for (size_t piece = 1; piece <= 70; piece += 3) {
      Sha1 sha1;
      for (size_t at = 0; at < length; at += piece) {
        const std::string_view part(text.data() + at, std::min(piece, length - at));
        sha1.update(std::as_bytes(std::span(part)));
      }
      ASSERT_EQ(sha1.finish_hex(), sha1_of(std::string_view(text).substr(0, length)))
          << length << " " << piece;
    }
}

}  // namespace
}  // namespace moec
