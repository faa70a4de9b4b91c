// Pieces of a text: whole characters, and nothing of a stop text.
#include "frontends/jobs/serve/text_stream.h"

#include <gtest/gtest.h>

#include "backends/runtime/text/tokenizer.h"

namespace moec {
namespace {

Manifest bytes() {
  Manifest manifest;
  manifest.tokenizer = TokenizerKind::bytes;
  return manifest;
}

// What is said with each byte, "|" behind each, and the rest.
std::string pieces(TextStream& stream, std::string_view text) {
  std::string all;
  for (const char byte : text) all += stream.add(static_cast<unsigned char>(byte)) + "|";
  return all + stream.rest();
}

TEST(TextStream, KeepsTheBeginningsOfCharactersBack) {
  const Manifest manifest = bytes();
  TextStream stream(manifest, {});
  EXPECT_EQ(pieces(stream,
                   "a\xE2\x82\xAC"
                   "b"),
            "a|||\xE2\x82\xAC|b|");
  TextStream cut(manifest, {});
  EXPECT_EQ(pieces(cut, "a\xE2\x82"), "a|||\xE2\x82");
}

TEST(TextStream, EndsBeforeAStopText) {
  const Manifest manifest = bytes();
  TextStream stream(manifest, {"END", "EX"});
  EXPECT_EQ(pieces(stream, "aEENDb"), "a||E||||");
  EXPECT_TRUE(stream.stopped());
  TextStream other(manifest, {"END"});
  EXPECT_EQ(pieces(other, "aENb"), "a|||ENb|");
  EXPECT_FALSE(other.stopped());
  TextStream unfinished(manifest, {"END"});
  EXPECT_EQ(pieces(unfinished, "aEN"), "a|||EN") << "the beginning of a stop text is text";
}

TEST(TextStream, SaysNumbersWhereTokensAreNoBytes) {
  const Manifest manifest;
  TextStream stream(manifest, {});
  EXPECT_EQ(stream.add(1234) + stream.add(7), "1234 7 ");
}

}  // namespace
}  // namespace moec
