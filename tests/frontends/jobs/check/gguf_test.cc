// moec check of GGUF exports and of split GGUF models: accepts unmodified files and finds each kind
// of damage.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "frontends/jobs/check/check_folder.h"
#include "frontends/jobs/check/check_split.h"
#include "frontends/jobs/split/split_model.h"
#include "tests/files.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/jobs/split/split_cases.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> codes_of(const Diagnostics& findings) {
  std::vector<std::string> codes;
  for (const Diagnostic& finding : findings) codes.push_back(finding.code);
  return codes;
}

void replace_text(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  write_file(path, text.replace(at, from.size(), to));
}

void flip_last_byte(const std::string& path) {
  std::string bytes = read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path, bytes);
}

std::string file_in(const std::string& folder, const std::string& ending) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) return entry.path().string();
  ADD_FAILURE() << ending;
  return {};
}

// ---- Exports -----------------------------------------------------------------------------------

std::string gguf_export() {
  const std::string out = fresh_folder("out");
  const Outcome exported = run_command(
      {"export", source_path("tests/golden/mixtral_b"), "--target", "gguf", "--out", out});
  EXPECT_EQ(exported.exit_code, kExitFine) << exported.err;
  return out;
}

std::vector<std::string> findings_of(const std::string& folder) {
  const auto report = check_folder(folder, {.digests = false});
  return report ? codes_of((*report)->findings) : std::vector<std::string>{"none"};
}

TEST(CheckGguf, AcceptsAnExport) {
  const std::string out = gguf_export();
  const auto report = check_folder(out, {});
  ASSERT_TRUE(report);
  EXPECT_THAT(codes_of((*report)->findings), testing::IsEmpty());
  ASSERT_TRUE((*report)->held);
  EXPECT_GT((*report)->held->experts, 1);
  EXPECT_GT((*report)->held->moe_layers, 0);
  const Outcome checked = run_command({"check", out});
  EXPECT_EQ(checked.exit_code, kExitFine);
  EXPECT_THAT(checked.out, testing::HasSubstr("PASSED"));
}

TEST(CheckGguf, FindsAChangedByte) {
  const std::string out = gguf_export();
  flip_last_byte(file_in(out, ".gguf"));
  const auto report = check_folder(out, {});
  ASSERT_TRUE(report);
  EXPECT_THAT(codes_of((*report)->findings), testing::ElementsAre("manifest.digest_changed"));
  EXPECT_EQ(run_command({"check", out}).exit_code, kExitFellShort);
}

TEST(CheckGguf, FindsAnUnlistedTensor) {
  const std::string out = gguf_export();
  replace_text(file_in(out, "report.json"), "ffn_gate_exps", "ffn_gate_expt");
  EXPECT_THAT(findings_of(out), testing::Contains("check.gguf_tensors"));
}

// The u32 value of the key follows the value's type.
TEST(CheckGguf, FindsKeysOfAnotherModel) {
  const std::string out = gguf_export(), file = file_in(out, ".gguf");
  const std::string key = "llama.context_length";
  std::string bytes = read_file(file);
  const size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  ++bytes[at + key.size() + sizeof(uint32_t)];
  write_file(file, bytes);
  EXPECT_THAT(findings_of(out), testing::Contains("check.gguf_model"));
}

// ---- Splits ------------------------------------------------------------------------------------

std::string gguf_split() {
  SplitOptions options{.source = CutModel().write(), .out = no_folder("out"), .groups = 2};
  const auto report = split_model(options);
  EXPECT_TRUE(report) << render(report.error());
  return options.out;
}

std::vector<std::string> split_findings(const std::string& folder) {
  const auto split = check_split(folder, {});
  if (!split) return codes_of(split.error());
  std::vector<std::string> codes = codes_of(split->findings);
  for (const CheckedNode& node : split->nodes)
    for (const std::string& code : codes_of(node.report->findings)) codes.push_back(code);
  return codes;
}

TEST(CheckGguf, AcceptsASplit) {
  const std::string out = gguf_split();
  EXPECT_THAT(split_findings(out), testing::IsEmpty());
  const Outcome checked = run_command({"check", out});
  EXPECT_EQ(checked.exit_code, kExitFine) << checked.err;
  EXPECT_THAT(checked.out, testing::HasSubstr("4 experts in each of 2 layers"));
  EXPECT_EQ(run_command({"check", out, "--json"}).exit_code, kExitFine);
}

struct DamagedSplit {
  const char* name;
  const char* code;
  std::function<void(const std::string& folder)> damage;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const DamagedSplit& damaged, std::ostream* out) { *out << damaged.name; }

class DamagedSplits : public testing::TestWithParam<DamagedSplit> {};

TEST_P(DamagedSplits, AreFound) {
  const std::string out = gguf_split();
  GetParam().damage(out);
  EXPECT_THAT(split_findings(out), testing::Contains(GetParam().code));
}

std::function<void(const std::string&)> index_edit(const std::string& from, const std::string& to) {
  return [from, to](const std::string& out) { replace_text(out + "/split.json", from, to); };
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DamagedSplits,
    testing::Values(
        DamagedSplit{"byte", "manifest.digest_changed",
                     [](const auto& out) {
                       flip_last_byte(file_in(out + "/node1", "-00003-of-00003.gguf"));
                     }},
        DamagedSplit{
            "missing", "manifest.file_missing",
            [](const auto& out) { fs::remove(file_in(out + "/node0", "-00002-of-00003.gguf")); }},
        DamagedSplit{"node", "check.gguf_node", index_edit("\"node1\"", "\"nodeX\"")},
        DamagedSplit{"count", "check.gguf_node",
                     index_edit("\"experts_per_layer\": 4", "\"experts_per_layer\": 3")},
        DamagedSplit{"files", "check.gguf_node", index_edit("\"files\"", "\"filez\"")},
        DamagedSplit{"grown", "check.uncovered", index_edit("\"experts\": 8", "\"experts\": 9")},
        DamagedSplit{"unfinished", "check.split_unfinished",
                     index_edit("\"finished\": true", "\"finished\": false")},
        DamagedSplit{"list", "check.split_unfinished", index_edit("\"nodes\"", "\"nodez\"")}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
