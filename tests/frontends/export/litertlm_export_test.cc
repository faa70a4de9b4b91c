// Exports for LiteRT-LM. tests/peers/test_litertlm.py runs them.
#include "frontends/export/litertlm_export.h"

#include <gmock/gmock.h>
#include <litertlm_generated.h>

#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

using testing::HasSubstr;

ExportOptions options_of(const char* golden, const std::string& out) {
  ExportOptions options =
      export_options_of(source_dir() + "/tests/golden/" + golden, "litertlm", out);
  options.compile.build.context = 32;
  return options;
}

std::string refusal(const ExportOptions& options) {
  const auto summary = export_model(options);
  return summary ? std::string() : render(summary.error());
}

TEST(LitertlmExport, ListsTheFileInTheManifest) {
  const std::string out = fresh_folder("out");
  const auto summary = export_model(options_of("qwen3_moe_a", out));
  ASSERT_TRUE(summary) << render(summary.error());
  const auto& files = summary->manifest.side_files;
  const auto found = std::find_if(files.begin(), files.end(),
                                  [](const auto& file) { return file.path == kLitertlmFile; });
  ASSERT_NE(found, files.end());
  const std::string bytes = read_file(out + "/model.litertlm");
  EXPECT_EQ(found->bytes, std::ssize(bytes));
  EXPECT_EQ(bytes.substr(0, 8), "LITERTLM");
}

// A section without contents would be a tokenizer that LiteRT-LM cannot read.
TEST(LitertlmExport, OmitsAbsentTokenizers) {
  const std::string out = fresh_folder("out");
  ASSERT_TRUE(export_model(options_of("qwen3_moe_a", out)));
  const std::string bytes = read_file(out + "/model.litertlm");
  const auto* header = litertlm::GetHeader(bytes.data() + 32);
  EXPECT_EQ(header->section_metadata()->objects()->size(), 2u);
}

TEST(LitertlmExport, WritesEqualBytesAgain) {
  const std::string out = fresh_folder("out"), again = fresh_folder("again");
  ASSERT_TRUE(export_model(options_of("qwen3_moe_a", out)));
  ExportOptions parallel = options_of("qwen3_moe_a", again);
  parallel.resources.jobs = 2;
  ASSERT_TRUE(export_model(parallel));
  EXPECT_EQ(read_file(out + "/model.litertlm"), read_file(again + "/model.litertlm"));
}

TEST(LitertlmExport, RefusesHistories) {
  const std::string out = fresh_folder("out");
  const std::string said = refusal(options_of("lfm2_moe_a", out));
  EXPECT_THAT(said, HasSubstr("litertlm.form"));
  EXPECT_THAT(said, HasSubstr("history"));
  EXPECT_FALSE(std::filesystem::exists(out + "/manifest.json"));
}

TEST(LitertlmExport, RefusesFormsWithoutAGraph) {
  const std::string out = fresh_folder("out");
  ExportOptions wide = options_of("qwen3_moe_a", out);
  wide.compile.build.tokens = {8};
  EXPECT_THAT(refusal(wide), HasSubstr("add 1 to --tokens"));
  ExportOptions narrow = options_of("qwen3_moe_a", out);
  narrow.compile.build.context = 8;
  EXPECT_THAT(refusal(narrow), HasSubstr("raise --context"));
  ExportOptions host = options_of("qwen3_moe_a", out);
  host.compile.build.host_routing = true;
  EXPECT_THAT(refusal(host), HasSubstr("omit --routing host"));
  ExportOptions limited = options_of("qwen3_moe_a", out);
  limited.compile.passes.capacity = 4;
  EXPECT_THAT(refusal(limited), HasSubstr("omit --capacity"));
}

TEST(LitertlmExport, RefusesModelsThatLabelTokens) {
  const std::string out = fresh_folder("out");
  EXPECT_THAT(refusal(options_of("openai_privacy_filter_a", out)), HasSubstr("litertlm.family"));
}

}  // namespace
}  // namespace moec
