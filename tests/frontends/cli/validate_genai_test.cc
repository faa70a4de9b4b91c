// moec validate --engine onnxruntime-genai, with shell scripts in place of a Python interpreter.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/frontends/cli/command.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class ValidateGenai : public testing::Test {
 protected:
  ValidateGenai() {
    run_command({"export", checkpoint_of("mixtral_a"), "--out", out_, "--quiet"});
    std::ofstream(out_ + "/genai_config.json") << "{}";
  }

  // Runs moec validate with an interpreter of the text `text`, which receives the script's path and
  // arguments.
  Outcome run(const std::string& text, Words more = {}) const {
    const std::string python = fresh_folder("python") + "/python";
    std::ofstream(python) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    Words words = {"validate",          out_,       "--golden", golden_, "--engine",
                   "onnxruntime-genai", "--python", python};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }

  const std::string out_ = fresh_folder("out");
  const std::string golden_ = source_path("tests/golden/mixtral_a");
};

TEST_F(ValidateGenai, ForwardsExitCodesAndFlags) {
  const std::string said = fresh_folder("said") + "/words";
  EXPECT_EQ(run("exit 1\n").exit_code, kExitFellShort);
  EXPECT_EQ(run("echo \"$@\" > " + said + "\n", {"--json"}).exit_code, kExitFine);
  EXPECT_THAT(read_file(said), AllOf(HasSubstr("scripts/validate_with_genai.py " + out_ +
                                               " --golden " + golden_ + " --json")));
}

TEST_F(ValidateGenai, NamesThePackageToInstall) {
  const Outcome outcome = run("exit 2\n");
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("error[validate.engine]"),
                    HasSubstr("-m pip install numpy onnxruntime-genai"), HasSubstr("--python")));
  EXPECT_THAT(run_command({"validate", out_, "--golden", golden_, "--engine", "onnxruntime-genai",
                           "--python", "/nowhere/python"})
                  .err,
              HasSubstr("error[program.start]"));
}

TEST_F(ValidateGenai, RejectsFlagsOfOtherEngines) {
  for (const Words& flags :
       {Words{"--record"}, Words{"--precision", "f16"}, Words{"--threads", "1"}})
    EXPECT_THAT(run("exit 0\n", flags).err,
                AllOf(HasSubstr("error[engine.option]"), HasSubstr(flags.front())));
}

TEST_F(ValidateGenai, RejectsExportsForOtherEngines) {
  std::filesystem::remove(out_ + "/genai_config.json");
  EXPECT_THAT(run("exit 0\n").err,
              AllOf(HasSubstr("error[validate.genai]"), HasSubstr("--target ort-genai")));
}

}  // namespace
}  // namespace moec
