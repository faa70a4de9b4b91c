// Reads the end-of-text tokens from the files of a checkpoint.
#include "frontends/sources/hf/eos_tokens.h"

#include <gmock/gmock.h>

#include "tests/files.h"
#include "tests/frontends/sources/hf/folder.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kVocabulary = 100;

class EosTokens : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    write_file(folder_ + "/" + name, text);
  }
  std::vector<int64_t> ids() {
    auto ids = read_eos_tokens(folder_ + "/config.json", kVocabulary, warnings_);
    EXPECT_TRUE(ids.has_value()) << render(ids.error());
    return ids.value_or(std::vector<int64_t>());
  }

  const std::string folder_ = empty_folder("eos_tokens");
  Diagnostics warnings_;
};

TEST_F(EosTokens, AreReadFromNestedTextModels) {
  write("config.json", R"({"text_config": {"eos_token_id": [5, 3]}})");
  EXPECT_THAT(ids(), ElementsAre(3, 5));
  write("config.json", R"({"eos_token_id": null, "text_config": {"eos_token_id": 3}})");
  EXPECT_THAT(ids(), ElementsAre(3));
  write("config.json", R"({"eos_token_id": 4, "text_config": {"eos_token_id": 3}})");
  EXPECT_THAT(ids(), ElementsAre(4));
}

TEST_F(EosTokens, AreReadFromIdsAndLists) {
  write("config.json", R"({"eos_token_id": 2})");
  EXPECT_THAT(ids(), ElementsAre(2));
  write("config.json", R"({"eos_token_id": [7, 2, 7]})");
  EXPECT_THAT(ids(), ElementsAre(2, 7));
  write("config.json", R"({"eos_token_id": []})");
  EXPECT_THAT(ids(), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
  for (const char* none : {R"({"eos_token_id": null})", "{}"}) {
    write("config.json", none);
    EXPECT_THAT(ids(), IsEmpty()) << none;
    EXPECT_EQ(warnings_.back().code, "export.no_end");
    EXPECT_EQ(warnings_.back().severity, Severity::note);
  }
}

// transformers also prefers generation_config.json when it generates text.
TEST_F(EosTokens, PreferTheGenerationConfig) {
  write("config.json", R"({"eos_token_id": 2})");
  write("generation_config.json", R"({"eos_token_id": [5, 3]})");
  EXPECT_THAT(ids(), ElementsAre(3, 5));
  write("generation_config.json", R"({"temperature": 0.6})");
  EXPECT_THAT(ids(), ElementsAre(2));
}

TEST_F(EosTokens, WarnAboutInvalidIds) {
  write("config.json", R"({"eos_token_id": [100, 99, -1, "</s>"]})");
  EXPECT_THAT(ids(), ElementsAre(99));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0].code, "export.eos_token");
  EXPECT_EQ(warnings_[0].severity, Severity::warning);
  EXPECT_THAT(warnings_[0].cause, HasSubstr("3 of the values of \"eos_token_id\", including 100"));
}

TEST_F(EosTokens, RejectFilesThatAreNotJson) {
  write("config.json", "{}");
  write("generation_config.json", "{");
  const auto ids = read_eos_tokens(folder_ + "/config.json", kVocabulary, warnings_);
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error()[0].code, "json.syntax");
}

}  // namespace
}  // namespace moec
