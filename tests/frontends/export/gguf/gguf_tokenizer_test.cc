#include "frontends/export/gguf/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/files.h"
#include "tests/models/expect_error.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class GgufTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    model_.vocab = 8;
    write("config.json", R"({"eos_token_id": [5, 6]})");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { write_file(folder_ / name, text); }
  // Writes a tokenizer with the tokens a, b, ab and ÿ and the additional members `more`.
  void write_tokenizer(const std::string& more = "", const std::string& merges = R"(["a b"])") {
    write("tokenizer.json",
          R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
              "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "ÿ": 3}, "merges": )" +
              merges + "}" + more + "}");
  }
  Result<std::vector<GgufEntry>> keys(bool wanted = true) {
    return tokenizer_keys(folder_.string(), model_, wanted, notes_);
  }
  template <class T>
  static T value(const std::vector<GgufEntry>& entries, std::string_view key) {
    const GgufEntry* entry = find_entry(entries, "tokenizer." + std::string(key));
    EXPECT_TRUE(entry && std::holds_alternative<T>(entry->value)) << key;
    return entry && std::holds_alternative<T>(entry->value) ? std::get<T>(entry->value) : T();
  }

  fs::path folder_ = fs::path(testing::TempDir()) / running_test();
  ModelConfig model_;
  Diagnostics notes_;
};

using Texts = std::vector<std::string>;

TEST_F(GgufTokenizer, WritesTokensOfEveryKind) {
  write_tokenizer(R"(, "added_tokens": [{"id": 4, "content": "<s>", "special": true},
                                         {"id": 5, "content": "<tool>", "special": false}])",
                  R"([["a", "b"]])");
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>"}, "add_bos_token": true, "chat_template": "{{x}}"})");
  const auto entries = keys();
  ASSERT_TRUE(entries) << render(entries.error());
  EXPECT_EQ(value<std::string>(*entries, "ggml.model"), "gpt2");
  EXPECT_EQ(value<std::string>(*entries, "ggml.pre"), "gpt-2");
  EXPECT_THAT(value<Texts>(*entries, "ggml.tokens"),
              ElementsAre("a", "b", "ab", "ÿ", "<s>", "<tool>", "[PAD6]", "[PAD7]"));
  EXPECT_THAT(value<std::vector<int32_t>>(*entries, "ggml.token_type"),
              ElementsAre(1, 1, 1, 1, 3, 4, 5, 5));
  EXPECT_THAT(value<Texts>(*entries, "ggml.merges"), ElementsAre("a b"));
  EXPECT_EQ(value<uint32_t>(*entries, "ggml.bos_token_id"), 4u);
  EXPECT_EQ(value<uint32_t>(*entries, "ggml.eos_token_id"), 5u);
  EXPECT_TRUE(value<bool>(*entries, "ggml.add_bos_token"));
  EXPECT_EQ(value<std::string>(*entries, "chat_template"), "{{x}}");
}

TEST_F(GgufTokenizer, WritesEveryEndToken) {
  write_tokenizer(R"(, "added_tokens": [{"id": 4, "content": "<|im_end|>", "special": true}])");
  write("config.json", R"({"eos_token_id": [5, 4, 7, 6]})");
  const auto two = keys();
  ASSERT_TRUE(two) << render(two.error());
  EXPECT_EQ(value<uint32_t>(*two, "ggml.eos_token_id"), 5u);
  EXPECT_EQ(value<uint32_t>(*two, "ggml.eot_token_id"), 6u);
  EXPECT_EQ(value<uint32_t>(*two, "ggml.eom_token_id"), 7u);
  EXPECT_TRUE(notes_.empty());
  write("config.json", R"({"eos_token_id": [5, 7, 6, 1, 2]})");
  EXPECT_TRUE(keys());
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].code, "gguf.ends");
  EXPECT_THAT(notes_[0].cause, testing::HasSubstr("end tokens 6, 7 do not end a text"));
}

TEST_F(GgufTokenizer, WritesEveryChatTemplate) {
  write_tokenizer();
  write("chat_template.json", R"({"chat_template": "json"})");
  EXPECT_EQ(value<std::string>(*keys(), "chat_template"), "json");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "a"},
                                                       {"name": "tool use", "template": "b"}]})");
  const auto named = keys();
  ASSERT_TRUE(named) << render(named.error());
  EXPECT_EQ(value<std::string>(*named, "chat_template"), "a");
  EXPECT_EQ(value<std::string>(*named, "chat_template.tool_use"), "b");
  EXPECT_THAT(value<Texts>(*named, "chat_templates"), ElementsAre("tool_use"));
  write("chat_template.jinja", "file");
  fs::create_directories(folder_ / "additional_chat_templates");
  write("additional_chat_templates/rag.jinja", "c");
  const auto files = keys();
  EXPECT_EQ(value<std::string>(*files, "chat_template"), "file");
  EXPECT_EQ(value<std::string>(*files, "chat_template.rag"), "c");
  fs::remove(folder_ / "chat_template.jinja");
  fs::remove_all(folder_ / "additional_chat_templates");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool use", "template": "a"},
                                                       {"name": "tool_use", "template": "b"}]})");
  expect_error(keys(), "gguf.chat_template", "two templates");
  write("tokenizer_config.json", R"({"chat_template": {"default": "a"}})");
  expect_error(keys(), "gguf.chat_template", "neither a string nor a list");
}

// Without an explicit id, readers would use token 11 as the special token.
TEST_F(GgufTokenizer, MapsUnsetTokensToUnusedOnes) {
  write("config.json", "{}");
  write_tokenizer();
  const auto entries = keys();
  ASSERT_TRUE(entries) << render(entries.error());
  EXPECT_EQ(value<uint32_t>(*entries, "ggml.bos_token_id"), 3u);
  EXPECT_EQ(value<uint32_t>(*entries, "ggml.eos_token_id"), 3u);
  EXPECT_FALSE(value<bool>(*entries, "ggml.add_bos_token"));
  EXPECT_EQ(find_entry(*entries, "tokenizer.ggml.padding_token_id"), nullptr);
}

TEST_F(GgufTokenizer, WritesAByteVocabularyForTinymoe) {
  model_.vocab = 256;
  const auto entries = tokenizer_keys(source_dir() + "/models/tinymoe", model_, true, notes_);
  ASSERT_TRUE(entries) << render(entries.error());
  EXPECT_EQ(value<Texts>(*entries, "ggml.tokens").size(), 256u);
  EXPECT_TRUE(value<Texts>(*entries, "ggml.merges").empty());
  EXPECT_EQ(value<uint32_t>(*entries, "ggml.eos_token_id"), 255u);
}

TEST_F(GgufTokenizer, WritesModelNoneWithoutATokenizer) {
  const auto missing = keys();
  ASSERT_TRUE(missing);
  EXPECT_EQ(value<std::string>(*missing, "ggml.model"), "none");
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].code, "export.no_tokenizer");
  write_tokenizer();
  const auto unwanted = keys(false);
  ASSERT_TRUE(unwanted);
  EXPECT_EQ(*unwanted, *missing);
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(GgufTokenizer, RejectsInexpressibleSettings) {
  write_tokenizer(R"(, "normalizer": {"type": "Lowercase"})");
  expect_error(keys(), "gguf.tokenizer", "normalizer");
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0},
                                        "end_of_word_suffix": "</w>"}})");
  expect_error(keys(), "gguf.tokenizer", "end_of_word_suffix");
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}}})");
  expect_error(keys(), "gguf.tokenizer", "have the same id 0");
  for (const char* fine :
       {"null", R"({"type": "NFC"})", R"({"type": "Sequence", "normalizers": []})"}) {
    write_tokenizer(std::string(R"(, "normalizer": )") + fine);
    EXPECT_TRUE(keys()) << fine;
  }
}

TEST_F(GgufTokenizer, ReadsAddedTokensFromTemplates) {
  write_tokenizer(R"(, "post_processor": {"single": [{"Sequence": {"id": "A"}},
                                                     {"SpecialToken": {"id": "b"}}]})");
  const auto ends = keys();
  ASSERT_TRUE(ends) << render(ends.error());
  EXPECT_FALSE(value<bool>(*ends, "ggml.add_bos_token"));
  EXPECT_TRUE(value<bool>(*ends, "ggml.add_eos_token"));
  write("tokenizer_config.json", R"({"add_eos_token": false})");
  EXPECT_EQ(find_entry(*keys(), "tokenizer.ggml.add_eos_token"), nullptr);
}

TEST_F(GgufTokenizer, SuggestsNoneForUnsupportedTokenizers) {
  write("tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []}})");
  expect_error(keys(), "gguf.tokenizer", "--tokenizer none");
  write("tokenizer.json", R"({"model": {"type": "BPE", "byte_fallback": true, "vocab": {}}})");
  expect_error(keys(), "gguf.tokenizer", "is not byte-level BPE");
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 8}}})");
  expect_error(keys(), "gguf.tokenizer", "\"a\"");
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [1]}})");
  expect_error(keys(), "gguf.tokenizer", "merge");
  write_tokenizer(R"(, "added_tokens": [{"id": 4, "content": "a", "special": true}])");
  expect_error(keys(), "gguf.tokenizer", "two ids");
  write("tokenizer.json", R"({"pre_tokenizer": {"type": "Whitespace"},
                              "model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}})");
  expect_error(keys(), "gguf.pre_tokenizer", "--tokenizer none");
  write("tokenizer.json", "[");
  expect_error(keys(), "tokenizer.malformed", "");
}

}  // namespace
}  // namespace moec
