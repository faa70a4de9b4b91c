// An export copies the checkpoint's tokenizer and chat template; `moec check` verifies the copies.
#include "backends/output/carried_files.h"

#include <gmock/gmock.h>

#include "backends/manifest/manifest_file.h"
#include "tests/files.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTokenizer = R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})";

std::vector<std::string> carried_by(const std::string& out) {
  const Manifest manifest = read_manifest(out).value();
  std::vector<std::string> names;
  for (const manifest::FileRef& file : manifest.carried) names.push_back(file.path);
  return names;
}

class CarriedFiles : public testing::Test {
 protected:
  void SetUp() override {
    copy_.write("tokenizer.json", kTokenizer);
    copy_.write("merges.txt", std::string(3 << 20, 'm'));  // larger than one chunk
    copy_.write("chat_template.jinja", "");
    copy_.write("notes.txt", "not carried");
  }
  Outcome export_copy(std::vector<std::string> flags = {}) const {
    std::vector<std::string> command = {"export", copy_.folder(), "--out", out_, "--quiet"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_command(command);
  }

  const CheckpointCopy copy_;
  const std::string out_ = fresh_folder("out");
};

TEST_F(CarriedFiles, AreCopiedExactlyAndVerified) {
  expect_fine(export_copy({"--digest", "sha256"}));
  EXPECT_THAT(carried_by(out_), ElementsAre("tokenizer.json", "merges.txt", "chat_template.jinja"));
  for (const std::string& name : carried_by(out_))
    EXPECT_EQ(read_file(out_ + "/" + name), copy_.read(name)) << name;
  EXPECT_FALSE(fs::exists(out_ + "/notes.txt"));
  expect_fine(run_command({"check", out_, "--digests"}));
  std::ofstream(out_ + "/tokenizer.json")
      << R"({"model": {"type": "WordLevel", "vocab": {"b": 0}}})";
  EXPECT_THAT(run_command({"check", out_, "--digests"}).out,
              AllOf(HasSubstr("error[manifest.digest_changed]"), HasSubstr("out/tokenizer.json")));
  fs::remove(out_ + "/merges.txt");
  EXPECT_THAT(run_command({"check", out_}).out,
              AllOf(HasSubstr("error[manifest.file_missing]"), HasSubstr("out/merges.txt")));
}

TEST_F(CarriedFiles, AreReplacedWithTheExport) {
  expect_fine(export_copy());
  fs::remove(copy_.path("merges.txt"));
  copy_.write("chat_template.jinja", "{{ messages }}");
  expect_fine(export_copy({"--force"}));
  EXPECT_THAT(carried_by(out_), ElementsAre("tokenizer.json", "chat_template.jinja"));
  EXPECT_FALSE(fs::exists(out_ + "/merges.txt"));
  EXPECT_EQ(read_file(out_ + "/chat_template.jinja"), "{{ messages }}");
}

TEST_F(CarriedFiles, AreCopiedFromConfigFolders) {
  expect_fine(run_command(
      {"export", copy_.path("config.json"), "--out", out_, "--quiet", "--seeded-weights", "1"}));
  EXPECT_THAT(carried_by(out_), ElementsAre("tokenizer.json", "merges.txt", "chat_template.jinja"));
}

TEST_F(CarriedFiles, RejectDanglingLinks) {
  fs::remove(copy_.path("merges.txt"));
  fs::create_symlink("../blobs/none", copy_.path("merges.txt"));
  const Outcome outcome = export_copy();
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[file.open]"), HasSubstr("merges.txt")));
  EXPECT_FALSE(fs::exists(out_ + "/manifest.json"));
}

// Copying the target of a link out of the checkpoint could publish private content.
TEST_F(CarriedFiles, RejectLinksOutOfTheCheckpoint) {
  const std::string elsewhere = fresh_folder("elsewhere");
  fs::create_directories(elsewhere + "/blobs");
  for (const char* target : {"/secret", "/blobs/secret"}) {
    write_file(elsewhere + target, "root:secret");
    fs::remove(copy_.path("merges.txt"));
    fs::create_symlink(elsewhere + target, copy_.path("merges.txt"));
    const Outcome outcome = export_copy();
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[export.carried_link]"), HasSubstr("merges.txt"),
                                   HasSubstr(fs::canonical(elsewhere + target).string())));
    EXPECT_TRUE(fs::is_empty(out_));
  }
}

// The hub client's layout: snapshots/REVISION/NAME links to blobs/DIGEST.
TEST_F(CarriedFiles, FollowLinksIntoTheModelsStore) {
  const std::string model = fresh_folder("model");
  fs::create_directories(model + "/snapshots");
  fs::create_directories(model + "/blobs");
  const std::string snapshot = model + "/snapshots/f00d";
  fs::copy(copy_.folder(), snapshot, fs::copy_options::recursive);
  fs::rename(snapshot + "/merges.txt", model + "/blobs/b10b");
  fs::create_symlink("../../blobs/b10b", snapshot + "/merges.txt");
  fs::rename(snapshot + "/chat_template.jinja", snapshot + "/template");
  fs::create_symlink("template", snapshot + "/chat_template.jinja");
  expect_fine(run_command({"export", snapshot, "--out", out_, "--quiet"}));
  EXPECT_EQ(read_file(out_ + "/merges.txt"), copy_.read("merges.txt"));
  EXPECT_FALSE(fs::is_symlink(out_ + "/merges.txt"));
}

}  // namespace
}  // namespace moec
