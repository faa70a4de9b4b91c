// Prompts of token ids and of text, for models that generate text and for models that label tokens.
#include "backends/runtime/text/prompt.h"

#include <gmock/gmock.h>

#include "tests/byte_text.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Manifest byte_model() {
  Manifest manifest;
  manifest.model.vocab = 256;
  manifest.tokenizer = manifest::TokenizerKind::bytes;
  return manifest;
}

std::string code_of(const Result<Prompt>& prompt) {
  return prompt ? "" : prompt.error().front().code;
}

TEST(Prompt, TokenizesTextIntoBytes) {
  const auto prompt = prompt_of_text("aé", byte_model(), byte_tokenizer());
  ASSERT_TRUE(prompt.has_value());
  EXPECT_THAT(prompt->tokens, ElementsAre(0x61, 0xc3, 0xa9));
  EXPECT_EQ(prompt->text, "aé");
}

TEST(Prompt, KeepsNoTextForTokenIds) {
  const auto prompt = prompt_of_tokens("--prompt-tokens", {0, 255}, byte_model());
  ASSERT_TRUE(prompt.has_value());
  EXPECT_THAT(prompt->tokens, ElementsAre(0, 255));
  EXPECT_EQ(prompt->text, std::nullopt);
}

TEST(Prompt, RejectsIdsOutsideTheVocabulary) {
  for (const int64_t token : {int64_t{-1}, int64_t{256}}) {
    const auto prompt = prompt_of_tokens("--prompt-tokens", {1, token}, byte_model());
    EXPECT_EQ(code_of(prompt), "run.token");
  }
}

TEST(Prompt, AcceptsEmptyTextOnlyForLabelling) {
  Manifest manifest = byte_model();
  EXPECT_EQ(code_of(prompt_of_text("", manifest, byte_tokenizer())), "run.no_prompt");
  manifest.tagging.emplace();
  const auto prompt = prompt_of_text("", manifest, byte_tokenizer());
  ASSERT_TRUE(prompt.has_value());
  EXPECT_THAT(prompt->tokens, IsEmpty());
  EXPECT_EQ(code_of(prompt_of_text(std::nullopt, manifest, byte_tokenizer())), "run.no_prompt");
}

TEST(Prompt, RejectsTextWithoutTokenizer) {
  EXPECT_EQ(code_of(prompt_of_text("a", byte_model(), no_tokenizer())), "run.no_tokenizer");
}

TEST(Prompt, CountsBytesPerTokenForLabelling) {
  Manifest manifest = byte_model();
  EXPECT_EQ(prompt_of_text("aé", manifest, byte_tokenizer())->byte_counts, std::nullopt);
  manifest.tagging.emplace();
  const auto prompt = prompt_of_text("aé", manifest, byte_tokenizer());
  ASSERT_TRUE(prompt.has_value());
  EXPECT_THAT(prompt->byte_counts, testing::Optional(ElementsAre(1, 1, 1)));
}

}  // namespace
}  // namespace moec
