#include "frontends/sources/gguf/pre_tokenizer_names.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

std::string name_of(std::string_view json, std::string_view family = "", bool has_merges = true) {
  const auto value = parse_json(json, {});
  EXPECT_TRUE(value) << render(value.error());
  return std::string(pre_tokenizer_name(*value, family, has_merges).value_or("none"));
}

constexpr std::string_view kPlain =
    R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
constexpr std::string_view kBytesAlone =
    R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";

TEST(PreTokenizers, AreNamedPerFamily) {
  EXPECT_EQ(name_of(kPlain), "gpt-2");
  EXPECT_EQ(name_of(kPlain, "olmoe"), "olmo");
}

TEST(PreTokenizers, CompareWholeSequences) {
  EXPECT_EQ(name_of(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true},
      {"type": "ByteLevel", "add_prefix_space": false}]})"),
            "refact");
  const std::string qwen =
      R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
      "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  EXPECT_EQ(name_of(qwen), "qwen2");
  std::string other = qwen;
  other.replace(other.find("\\\\p{N}|"), 6, "\\\\p{N}{1,4}");
  EXPECT_EQ(name_of(other), "none");
}

TEST(PreTokenizers, AcceptAnySplitWithoutMerges) {
  EXPECT_EQ(name_of(kBytesAlone), "none");
  EXPECT_EQ(name_of(kBytesAlone, "", false), "gpt-2");
}

TEST(PreTokenizers, HaveNoNameForUnsupportedSteps) {
  EXPECT_EQ(name_of(R"({"type": "Metaspace", "replacement": "_"})"), "none");
  EXPECT_EQ(name_of(R"({"type": "ByteLevel", "add_prefix_space": true})"), "none");
  EXPECT_EQ(name_of("null"), "none");
}

}  // namespace
}  // namespace moec
