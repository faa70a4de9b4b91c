// Tokenizers derived from the keys of GGUF files. tests/peers/test_tokenizers.py compares them with
// llama.cpp.
#include "frontends/sources/gguf/gguf_tokenizer_files.h"

#include <gmock/gmock.h>

#include "backends/tokenizer/tokenizer.h"
#include "frontends/sources/gguf/gguf.h"
#include "tests/files.h"
#include "tests/frontends/sources/gguf/gguf_bytes.h"

namespace moec {
namespace {

using testing::ElementsAre;

std::string strings(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += gguf_string(text);
  return bytes;
}

GgufValues values_of(GgufBytes bytes) {
  const std::string path = folder_of_test() + "/m.gguf";
  write_file(path, bytes.tensor({"a", {8}, 0, 0}).file(32));
  return read_gguf(path).value().values;
}

GgufBytes byte_level(const std::string& pre) {
  GgufBytes bytes;
  bytes.text("tokenizer.ggml.model", "gpt2");
  if (!pre.empty()) bytes.text("tokenizer.ggml.pre", pre);
  bytes.array("tokenizer.ggml.tokens", GgufType::string, 4, strings({"a", "b", "ab", "<s>"}));
  bytes.array("tokenizer.ggml.merges", GgufType::string, 1, strings({"a b"}));
  bytes.u32("tokenizer.ggml.bos_token_id", 3);
  return bytes;
}

std::vector<int64_t> tokens_of(const GgufValues& values, std::string_view text) {
  const auto json = gguf_tokenizer_json(values);
  EXPECT_TRUE(json) << render(json.error());
  const auto tokenizer = Tokenizer::parse(*json, "m.gguf");
  EXPECT_TRUE(tokenizer) << render(tokenizer.error());
  return tokenizer->encode(text, SpecialTokens::add).value();
}

TEST(GgufTokenizerFiles, AppliesNamedPreTokenizers) {
  EXPECT_THAT(tokens_of(values_of(byte_level("gpt-2")), "aab"), ElementsAre(0, 2));
  EXPECT_THAT(tokens_of(values_of(byte_level("llama-bpe")), "aab"), ElementsAre(3, 0, 2))
      << "starts with the first token unless the file states otherwise";
  EXPECT_EQ(gguf_tokenizer_json(values_of(byte_level("new"))).error().front().code,
            "gguf.pre_tokenizer");
  EXPECT_EQ(gguf_tokenizer_json(values_of(byte_level(""))).error().front().code,
            "gguf.pre_tokenizer");
}

TEST(GgufTokenizerFiles, DetectsMissingTokenizers) {
  EXPECT_TRUE(has_gguf_tokenizer(values_of(byte_level("gpt-2"))));
  EXPECT_FALSE(has_gguf_tokenizer(values_of(GgufBytes().text("tokenizer.ggml.model", "none"))));
  EXPECT_FALSE(has_gguf_tokenizer(values_of(GgufBytes())));
  const GgufValues other =
      values_of(GgufBytes()
                    .text("tokenizer.ggml.model", "rwkv")
                    .array("tokenizer.ggml.tokens", GgufType::string, 1, strings({"a"})));
  EXPECT_EQ(gguf_tokenizer_json(other).error().front().code, "gguf.tokenizer");
}

TEST(GgufTokenizerFiles, WritesSpecialTokens) {
  const auto config = gguf_tokenizer_config(
      values_of(byte_level("gpt-2").text("tokenizer.chat_template", "{{ x }}")));
  ASSERT_TRUE(config);
  EXPECT_THAT(*config, testing::HasSubstr("\"tokenizer_class\": \"PreTrainedTokenizerFast\""));
  EXPECT_THAT(*config, testing::HasSubstr("\"bos_token\": \"<s>\""));
  EXPECT_THAT(*config, testing::HasSubstr("\"chat_template\": \"{{ x }}\""));
}

}  // namespace
}  // namespace moec
