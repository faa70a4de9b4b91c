// Runs moec confirm with a shell script instead of Python. tests/peers/test_qnn.py, test_rknn.py,
// test_litert.py and test_litert_qnn.py run the real engines.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kNothingMeasured = R"({"format": "moec-measured-placement", "version": 1,
 "machine": {"engine": "qnn", "version": "2.51.0", "chip": "v75", "packages": "none"},
 "graphs": []})";

class Confirm : public testing::Test {
 protected:
  Confirm() {
    run_command({"export", checkpoint_of("mixtral_a"), "--out", out_, "--quiet", "--target", "qnn",
                 "--tokens", "1"});
  }

  // Runs moec confirm with a script of the text `text`, which receives the arguments of
  // scripts/confirm_with_qnn.py.
  Outcome run(const std::string& text, Words more = {}) {
    const std::string script = fresh_folder("script") + "/confirm.sh";
    std::ofstream(script) << text;
    Words words = {"confirm", out_, "--python", "sh", "--script", script};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }

  std::string writes_nothing_measured(int exit_code) const {
    return "cat > $5 <<END\n" + std::string(kNothingMeasured) + "\nEND\nexit " +
           std::to_string(exit_code) + "\n";
  }

  const std::string out_ = fresh_folder("out");
};

TEST_F(Confirm, ReadsMeasurementsOfTheScript) {
  const Outcome outcome = run(writes_nothing_measured(0));
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("measured by qnn 2.51.0 for v75, with none"),
                                 HasSubstr("confirmed by qnn 2.51.0 for v75: 0 of ")));
  EXPECT_TRUE(std::filesystem::exists(out_ + "/measured.json"));
  const Outcome checked = run_command({"check", out_, "--chip", "v75"});
  expect_fine(checked);
  EXPECT_THAT(checked.out, testing::Not(HasSubstr("manifest.extra_files")));
}

TEST_F(Confirm, FallsShortIfTheScriptDoes) {
  EXPECT_EQ(run(writes_nothing_measured(1)).exit_code, kExitFellShort);
}

TEST_F(Confirm, ForwardsItsFlags) {
  const std::string said = fresh_folder("said") + "/words";
  run("echo \"$@\" > " + said + "\nexit 2\n",
      {"--chip", "v79", "--golden", "g", "--context-binaries", "c", "--measured", "m", "--no-run"});
  std::ifstream file(said);
  std::string words;
  std::getline(file, words);
  EXPECT_EQ(words, out_ + " --chip v79 --measured m --golden g --context-binaries c --no-run");
}

// Text of a script that writes one context and a contexts.json that states `sha256` for the
// context.
std::string writes_a_context(const std::string& folder, const std::string& text,
                             const std::string& sha256) {
  return "mkdir -p " + folder + "/moe\nprintf '" + text + "' > " + folder +
         "/moe/L00.v75.bin\ncat > " + folder +
         R"(/contexts.json <<END
{"format": "moec-context-binaries", "version": 1, "files": [{"path": "moe/L00.v75.bin",
 "bytes": 3, "sha256": ")" +
         sha256 + "\"}]}\nEND\n";
}

constexpr const char* kSha256OfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST_F(Confirm, AddsContextsToTheManifest) {
  const std::string contexts = out_ + "/contexts";
  const std::string script =
      writes_a_context(contexts, "abc", kSha256OfAbc) + writes_nothing_measured(0);
  for (int times = 0; times < 2; ++times)
    EXPECT_EQ(run(script, {"--context-binaries", contexts}).exit_code, kExitFine);
  const Outcome checked = run_command({"check", out_, "--chip", "v75"});
  expect_fine(checked);
  EXPECT_THAT(checked.out, testing::Not(HasSubstr("manifest.extra_files")));
  std::ofstream(contexts + "/moe/L00.v75.bin") << "abd";
  EXPECT_THAT(run_command({"check", out_}).err + run_command({"check", out_}).out,
              AllOf(HasSubstr("manifest.digest_changed"), HasSubstr("contexts/moe/L00.v75.bin")));
}

TEST_F(Confirm, IgnoresContextsOutsideTheExport) {
  const std::string before = read_file(out_ + "/manifest.json");
  const std::string contexts = fresh_folder("elsewhere");
  EXPECT_EQ(run(writes_a_context(contexts, "abc", kSha256OfAbc) + writes_nothing_measured(0),
                {"--context-binaries", contexts})
                .exit_code,
            kExitFine);
  EXPECT_EQ(read_file(out_ + "/manifest.json"), before);
}

TEST_F(Confirm, RejectsContextsThatMismatchTheirList) {
  const std::string contexts = out_ + "/contexts", before = read_file(out_ + "/manifest.json");
  const auto said = [&](const std::string& script, const std::string& folder) {
    return run(script + writes_nothing_measured(0), {"--context-binaries", folder}).err;
  };
  EXPECT_THAT(said(writes_a_context(contexts, "abd", kSha256OfAbc), contexts),
              AllOf(HasSubstr("error[confirm.contexts]"), HasSubstr("the SHA-256 of")));
  EXPECT_THAT(said("echo '{}' > " + contexts + "/contexts.json\n", contexts),
              HasSubstr("error[confirm.contexts]"));
  EXPECT_THAT(said("", out_), HasSubstr("a separate folder"));
  EXPECT_EQ(read_file(out_ + "/manifest.json"), before);
}

TEST_F(Confirm, ForwardsTheEnginesChipName) {
  const std::string said = fresh_folder("said") + "/words";
  auto chip_of = [&](const Words& more) {
    run("echo $3 > " + said + "\nexit 2\n", more);
    std::ifstream file(said);
    std::string word;
    file >> word;
    return word;
  };
  EXPECT_EQ(chip_of({}), "v75");
  EXPECT_EQ(chip_of({"--chip", "sm8750"}), "v79");
  EXPECT_EQ(chip_of({"--engine", "rknn"}), "rk3588");
  // LiteRT has no chips, so the script gets its next argument, the file for the measurement.
  EXPECT_THAT(chip_of({"--engine", "litert"}), testing::EndsWith("measured.json"));
  EXPECT_EQ(chip_of({"--engine", "litert-qnn"}), "v75");
  EXPECT_EQ(chip_of({"--engine", "litert-qnn", "--chip", "sm8550"}), "v73");
  EXPECT_EQ(chip_of({"--engine", "rknn", "--chip", "rk3568"}), "rk3566");
  for (const Words& words : {Words{"--chip", "rk3588"}, Words{"--engine", "rknn", "--chip", "v75"},
                             Words{"--engine", "litert-qnn", "--chip", "v68"}})
    EXPECT_THAT(run("exit 2\n", words).err, HasSubstr("error[target.unknown_chip]"));
  EXPECT_THAT(run("exit 2\n", {"--engine", "rknn"}).err, HasSubstr("MOEC_RKNN_PYTHON"));
  EXPECT_THAT(run("exit 2\n", {"--engine", "litert-qnn"}).err, HasSubstr("MOEC_LITERT_QNN_PYTHON"));
}

TEST_F(Confirm, ReportsAFailingScript) {
  const Outcome outcome = run("exit 2\n");
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[confirm.engine]"),
                                 HasSubstr("exited with code 2"), HasSubstr("MOEC_QNN_PYTHON")));
  EXPECT_THAT(run_command({"confirm", out_, "--python", "/nowhere/python"}).err,
              HasSubstr("error[program.start]"));
  EXPECT_EQ(run_command({"confirm", out_, "--engine", "other"}).exit_code, kExitBadInput);
}

}  // namespace
}  // namespace moec
