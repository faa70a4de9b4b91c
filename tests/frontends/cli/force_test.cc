// Every command that writes a folder accepts --force, which replaces the files that moec wrote
// unless they were changed.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/jobs/split/split_cases.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct FolderCase {
  const char* name;
  Words (*words)(const std::string& out);
  const char* ending;  // suffix of one file of the result
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const FolderCase& c, std::ostream* out) { *out << c.name; }

Words export_for(const char* target, const std::string& out) {
  return {"export", checkpoint_of("mixtral_b"), "--target", target, "--context", "32", "--out",
          out};
}

std::string exported_once() {
  const std::string out = fresh_folder("exported");
  expect_fine(run_command({"export", checkpoint_of("mixtral_b"), "--target", "onnx", "--context",
                           "32", "--experts-per-shard", "1", "--routing", "host", "--out", out}));
  return out;
}

class FolderOutput : public testing::TestWithParam<FolderCase> {
 protected:
  std::string result_file() const {
    for (const auto& entry : fs::recursive_directory_iterator(out_))
      if (entry.path().string().ends_with(GetParam().ending)) return entry.path().string();
    ADD_FAILURE() << GetParam().ending;
    return {};
  }

  std::string out_ = fresh_folder("out") + "/result";
};

TEST_P(FolderOutput, IsReplacedOnlyIfUnchanged) {
  Words words = GetParam().words(out_);
  expect_fine(run_command(words));
  EXPECT_EQ(run_command(words).exit_code, kExitBadInput);
  words.emplace_back("--force");
  const std::string file = result_file(), bytes = read_file(file);
  std::string mine = bytes;
  mine.back() = static_cast<char>(mine.back() ^ 1);
  write_file(file, mine);
  const Outcome refused = run_command(words);
  EXPECT_EQ(refused.exit_code, kExitBadInput) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("[output.changed]"));
  EXPECT_THAT(refused.err, HasSubstr(fs::path(file).filename().string()));
  EXPECT_TRUE(read_file(file) == mine);
  write_file(file, bytes);
  expect_fine(run_command(words));
  EXPECT_TRUE(fs::exists(file));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, FolderOutput,
    testing::Values(
        FolderCase{"onnx", [](const auto& out) { return export_for("onnx", out); }, ".data"},
        FolderCase{"coreml", [](const auto& out) { return export_for("ane", out); }, "weight.bin"},
        FolderCase{"gguf",
                   [](const auto& out) {
                     return Words{"export", checkpoint_of("mixtral_b"), "--target", "gguf", "--out",
                                  out};
                   },
                   ".gguf"},
        FolderCase{"split_gguf",
                   [](const auto& out) {
                     static const std::string source = CutModel().write();
                     return Words{"split", source, "--groups", "2", "--out", out};
                   },
                   "-00003-of-00003.gguf"},
        FolderCase{"split_export",
                   [](const auto& out) {
                     static const std::string source = exported_once();
                     return Words{"split", source, "--groups", "2", "--out", out};
                   },
                   ".data"},
        FolderCase{"upcycle",
                   [](const auto& out) {
                     return Words{"upcycle", checkpoint_of("mistral_a"), "--out", out};
                   },
                   "model.safetensors"},
        FolderCase{"prune",
                   [](const auto& out) {
                     return Words{"prune",         checkpoint_of("mixtral_a"),
                                  "--expert-mask", "*:0-3",
                                  "--out",         out};
                   },
                   "model.safetensors"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
