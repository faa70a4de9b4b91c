// Files that commands write in addition to their main output: created, or replaced with --force.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Words of a command that writes a file, without the flag that names the file.
struct OutputCase {
  const char* name;
  const char* flag;
  Words (*words)(const std::string& exported, const std::string& folder);
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const OutputCase& c, std::ostream* out) { *out << c.name; }

class UserOutputTest : public testing::TestWithParam<OutputCase> {
 protected:
  void SetUp() override {
    expect_fine(export_case("tinymoe", exported_,
                            {"--routing", "host", "--experts-per-shard", "1", "--context", "32"}));
  }

  Outcome write(const std::string& file, const Words& more = {}) {
    Words words = GetParam().words(exported_, folder_);
    words.insert(words.end(), {GetParam().flag, file});
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
  void expect_refused(const std::string& file, const char* code) {
    const Outcome refused = write(file);
    EXPECT_EQ(refused.exit_code, kExitBadInput) << refused.out;
    EXPECT_THAT(refused.err, HasSubstr(code));
  }

  std::string exported_ = fresh_folder("exported"), folder_ = fresh_folder("out");
};

TEST_P(UserOutputTest, ReplacesFilesOnlyWithForce) {
  const std::string file = folder_ + "/file.csv", link = folder_ + "/link.csv";
  EXPECT_EQ(write(file).exit_code, kExitFine);
  EXPECT_TRUE(fs::is_regular_file(file));
  write_file(file, "mine");
  expect_refused(file, "[output.exists]");
  EXPECT_EQ(read_file(file), "mine");
  fs::create_symlink(file, link);
  expect_refused(link, "[output.link]");
  EXPECT_EQ(write(link, {"--force"}).exit_code, kExitBadInput);
  EXPECT_EQ(read_file(file), "mine");
  expect_refused(folder_, "[output.exists]");
  EXPECT_EQ(write(file, {"--force"}).exit_code, kExitFine);
  EXPECT_NE(read_file(file), "mine");
}

TEST_P(UserOutputTest, RejectsFilesInsideTheSource) {
  const std::string manifest = exported_ + "/manifest.json", text = read_file(manifest);
  for (const Words& more : {Words{}, Words{"--force"}})
    EXPECT_THAT(write(manifest, more).err, HasSubstr("[output.in_source]"));
  EXPECT_EQ(read_file(manifest), text);
}

Words with_profile(const std::string& exported, const std::string& folder, Words words) {
  const std::string profile = folder + "/profile.json";
  run_command({"discover", exported, "--prompt", "def", "--out", profile, "-q", "--force"});
  words.insert(words.end(), {"--profile", profile});
  return words;
}

INSTANTIATE_TEST_SUITE_P(
    Commands, UserOutputTest,
    testing::Values(
        OutputCase{"trace", "--out",
                   [](const std::string& exported, const std::string&) -> Words {
                     return {"trace", exported, "--prompt", "def", "-q"};
                   }},
        OutputCase{"discover", "--out",
                   [](const std::string& exported, const std::string&) -> Words {
                     return {"discover", exported, "--prompt", "def", "-q"};
                   }},
        OutputCase{
            "prepack", "--out",
            [](const std::string& exported, const std::string& folder) {
              return with_profile(exported, folder, {"prepack", exported, "--capacity", "2"});
            }},
        OutputCase{"check", "--sarif",
                   [](const std::string& exported, const std::string&) -> Words {
                     return {"check", exported};
                   }},
        OutputCase{"run", "--log-gates",
                   [](const std::string& exported, const std::string&) -> Words {
                     return {"run", exported, "--prompt", "a", "-n", "1"};
                   }}),
    [](const testing::TestParamInfo<OutputCase>& info) { return info.param.name; });

}  // namespace
}  // namespace moec
