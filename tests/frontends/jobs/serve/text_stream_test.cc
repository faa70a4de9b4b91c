// Pieces of a generated text contain whole characters and no part of a stop text.
#include "frontends/jobs/serve/text_stream.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

const Tokenizer* bytes() {
  static const Tokenizer tokenizer = Tokenizer::bytes();
  return &tokenizer;
}

// Returns the text released after each byte, followed by "|", and then the rest.
std::string pieces(TextStream& stream, std::string_view text) {
  std::string all;
  for (const char byte : text) all += stream.add(static_cast<unsigned char>(byte)).value() + "|";
  return all + stream.rest().value();
}

TEST(TextStream, HoldsBackUnfinishedCharacters) {
  TextStream stream(bytes(), {});
  EXPECT_EQ(pieces(stream,
                   "a\xE2\x82\xAC"
                   "b"),
            "a|||\xE2\x82\xAC|b|");
  TextStream cut(bytes(), {});
  EXPECT_EQ(pieces(cut, "a\xE2\x82"), "a|||\xEF\xBF\xBD");
}

TEST(TextStream, EndsBeforeAStopText) {
  TextStream stream(bytes(), {"END", "EX"});
  EXPECT_EQ(pieces(stream, "aEENDb"), "a||E||||");
  EXPECT_TRUE(stream.stopped());
  TextStream other(bytes(), {"END"});
  EXPECT_EQ(pieces(other, "aENb"), "a|||ENb|");
  EXPECT_FALSE(other.stopped());
  TextStream unfinished(bytes(), {"END"});
  EXPECT_EQ(pieces(unfinished, "aEN"), "a|||EN") << "an incomplete stop text is text";
}

TEST(TextStream, ReturnsIdsWithoutATokenizer) {
  TextStream stream(nullptr, {});
  EXPECT_EQ(stream.add(1234).value() + stream.add(7).value(), "1234 7 ");
}

}  // namespace
}  // namespace moec
