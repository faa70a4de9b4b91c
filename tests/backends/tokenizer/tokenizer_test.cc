// Components of tokenizer.json and unsupported files. tests/peers/test_tokenizers.py compares whole
// tokenizers with the Python package tokenizers.
#include "backends/tokenizer/tokenizer.h"

#include <gmock/gmock.h>

#include "backends/tokenizer/model_tokenizer.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A tokenizer.json with the given members and the vocabulary "a" 0, "b" 1, "ab" 2, " " 3.
std::string json_of(const std::string& members, const std::string& model = "") {
  const std::string plain =
      R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, " ": 3}, "merges": [["a", "b"]])";
  return "{" + members + (members.empty() ? "" : ", ") + R"("model": )" + plain + model + "}}";
}

Result<std::vector<int64_t>> tokens_of(const std::string& json, std::string_view text,
                                       SpecialTokens special = SpecialTokens::add) {
  const Result<Tokenizer> tokenizer = Tokenizer::parse(json, "tokenizer.json");
  if (!tokenizer) return fail(tokenizer.error());
  return tokenizer->encode(text, special);
}

std::string code_of(const std::string& json, std::string_view text = "ab") {
  const auto tokens = tokens_of(json, text);
  return tokens ? "" : tokens.error().front().code;
}

TEST(Tokenizer, MergesTheFirstLearnedPair) {
  EXPECT_THAT(tokens_of(json_of(""), "aab ba").value(), ElementsAre(0, 2, 3, 1, 0));
  EXPECT_THAT(tokens_of(json_of(""), "").value(), IsEmpty());
}

TEST(Tokenizer, DropsUnknownCharacters) {
  EXPECT_THAT(tokens_of(json_of(""), "axb").value(), ElementsAre(2))
      << "as in the package tokenizers";
  EXPECT_THAT(tokens_of(json_of("", R"(, "unk_token": " ")"), "axb").value(), ElementsAre(0, 3, 1));
  EXPECT_EQ(code_of(json_of("", R"(, "unk_token": "?")"), "axb"), "tokenizer.unknown");
}

TEST(Tokenizer, MatchesAddedTokensFirst) {
  const std::string added = R"("added_tokens": [
      {"id": 4, "content": "<s>", "special": true, "normalized": false, "single_word": false,
       "lstrip": false, "rstrip": true},
      {"id": 5, "content": "ab", "special": false, "normalized": true, "single_word": true,
       "lstrip": false, "rstrip": false}])";
  EXPECT_EQ(code_of(json_of(added)), "tokenizer.malformed") << "\"ab\" is token 2 of the model";
  std::string fixed = added;
  fixed.replace(fixed.find("5, \"content\""), 1, "2");
  EXPECT_THAT(tokens_of(json_of(fixed), "a<s>  ab").value(), ElementsAre(0, 4, 2));
  EXPECT_THAT(tokens_of(json_of(fixed), "<s><s>b").value(), ElementsAre(4, 4, 1));
}

TEST(Tokenizer, OmitsSpecialTokensOnRequest) {
  const std::string around = R"("post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"x": {"id": "x", "ids": [1, 1], "tokens": ["b", "b"]}}})";
  EXPECT_THAT(tokens_of(json_of(around), "a").value(), ElementsAre(1, 1, 0));
  EXPECT_THAT(tokens_of(json_of(around), "a", SpecialTokens::leave_out).value(), ElementsAre(0));
}

TEST(Tokenizer, RejectsNegativeSpecialTokens) {
  const auto refused = [](const std::string& processor, const std::string& named) {
    const auto tokens = tokens_of(json_of(R"("post_processor": )" + processor), "a");
    ASSERT_FALSE(tokens) << processor;
    EXPECT_EQ(tokens.error().front().code, "tokenizer.malformed");
    EXPECT_EQ(tokens.error().front().place.file, "tokenizer.json");
    EXPECT_THAT(render(tokens.error()), testing::HasSubstr(named));
  };
  refused(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
      "special_tokens": {"x": {"id": "x", "ids": [1, -2], "tokens": ["b", "b"]}}})",
          "-2");
  refused(R"({"type": "BertProcessing", "cls": ["a", 0], "sep": ["b", -1]})", "-1");
}

TEST(Tokenizer, NamesUnsupportedComponents) {
  const auto refused = [](const std::string& members, const std::string& named) {
    const auto tokens = tokens_of(json_of(members), "ab");
    ASSERT_FALSE(tokens) << members;
    EXPECT_EQ(tokens.error().front().code, "tokenizer.component");
    EXPECT_THAT(render(tokens.error()), testing::HasSubstr(named));
  };
  refused(R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": ""})", "Precompiled");
  refused(R"("pre_tokenizer": {"type": "UnicodeScripts"})", "UnicodeScripts");
  refused(R"("post_processor": {"type": "New"})", "New");
  refused(R"("decoder": {"type": "CTC"})", "CTC");
  EXPECT_EQ(code_of(R"({"model": {"type": "New"}})"), "tokenizer.component");
  EXPECT_EQ(code_of(json_of("", R"(, "dropout": 0.1)")), "tokenizer.component");
}

TEST(Tokenizer, RejectsUnknownFields) {
  EXPECT_EQ(code_of(json_of("", R"(, "new_rule": true)")), "tokenizer.malformed");
  EXPECT_EQ(code_of(json_of(R"("normalizer": {"type": "NFC", "new_rule": 1})")),
            "tokenizer.malformed");
}

TEST(Tokenizer, RejectsDamagedFiles) {
  EXPECT_EQ(code_of("{}"), "tokenizer.malformed");
  EXPECT_EQ(code_of("["), "tokenizer.malformed");
  EXPECT_EQ(code_of(R"({"model": {"vocab": {"a": 0, "b": 0}, "merges": []}})"),
            "tokenizer.malformed");
  EXPECT_EQ(code_of(R"({"model": {"vocab": {"a": 9007199254740992}, "merges": []}})"),
            "tokenizer.malformed");
  EXPECT_EQ(code_of(R"({"model": {"vocab": {"a": 0}, "merges": ["a b"]}})"), "tokenizer.malformed");
  EXPECT_EQ(code_of(R"({"model": {"vocab": {"a": 0}, "merges": [["a", ""]]}})"),
            "tokenizer.malformed");
}

TEST(Tokenizer, RejectsInvalidUtf8) {
  EXPECT_EQ(code_of(json_of(""), "a\xff"), "tokenizer.utf8");
  EXPECT_EQ(code_of(json_of(""), "a\xed\xa0\x80"), "tokenizer.utf8") << "a surrogate";
}

TEST(Tokenizer, EncodesAnyBytes) {
  const Tokenizer bytes = Tokenizer::bytes();
  EXPECT_THAT(bytes.encode("a\xff", SpecialTokens::add).value(), ElementsAre(0x61, 0xff));
  EXPECT_EQ(bytes.decode(std::vector<int64_t>{0x61, 0xe2, 0x82, 0xff}).value(),
            "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Tokenizer, CountsBytesPerToken) {
  const Tokenizer bytes = Tokenizer::bytes();
  EXPECT_THAT(bytes.byte_counts(std::vector<int64_t>{'a', 'b'}, "ab"),
              testing::Optional(ElementsAre(1, 1)));
  EXPECT_EQ(bytes.byte_counts(std::vector<int64_t>{'a'}, "ab"), std::nullopt);
  EXPECT_EQ(bytes.byte_counts(std::vector<int64_t>{'b', 'b'}, "ab"), std::nullopt);
}

TEST(ModelTokenizer, FallsBackToNone) {
  const ModelTokenizer broken([] { return Tokenizer::parse("{}", "tokenizer.json"); }, 8);
  Diagnostics notes;
  EXPECT_FALSE(broken.or_none(notes).exists());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].code, "tokenizer.malformed");
  EXPECT_EQ(notes[0].severity, Severity::note);
  const ModelTokenizer bytes(Tokenizer::bytes, 256);
  EXPECT_TRUE(bytes.or_none(notes).exists());
  EXPECT_EQ(notes.size(), 1U);
}

TEST(ModelTokenizer, RejectsIdsOutsideTheVocabulary) {
  const ModelTokenizer small(Tokenizer::bytes, 64);
  EXPECT_THAT(small.encode(" ").value(), ElementsAre(32));
  EXPECT_EQ(small.encode("a").error().front().code, "tokenizer.vocabulary");
  EXPECT_EQ(ModelTokenizer({}, 64).encode("a").error().front().code, "tokenizer.missing");
}

TEST(TextDecoder, ReturnsWholeCharacters) {
  const Tokenizer bytes = Tokenizer::bytes();
  TextDecoder decoder(&bytes);
  std::string pieces;
  for (const int64_t token : {0x61, 0xe2, 0x82, 0xac, 0x62, 0xc3})
    pieces += decoder.add(token).value() + "|";
  EXPECT_EQ(pieces + decoder.finish().value(), "a|||\xe2\x82\xac|b||\xef\xbf\xbd");
}

TEST(TextDecoder, ReturnsIdsWithoutATokenizer) {
  TextDecoder decoder(nullptr);
  EXPECT_EQ(decoder.add(12).value() + decoder.add(3).value() + decoder.finish().value(), "12 3 ");
}

}  // namespace
}  // namespace moec
