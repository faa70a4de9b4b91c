// Files in an output folder that no export wrote, and links out of the folder.
#include <gmock/gmock.h>

#include "backends/output/journal.h"
#include "tests/files.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

ExportOptions foreign_options(const std::string& out, const std::string& target = "onnx") {
  return export_options_of(checkpoint_of("mixtral_a"), target, out);
}

std::string outcome_of(const ExportOptions& options) {
  const auto result = export_model(options);
  return result ? "fine" : render(result.error());
}

void add_file(const std::string& path, const std::string& bytes = "mine") {
  fs::create_directories(fs::path(path).parent_path());
  write_file(path, bytes);
}

class ForeignFiles : public testing::TestWithParam<const char*> {
 protected:
  ExportOptions options(bool force) const {
    ExportOptions options = foreign_options(out_, GetParam());
    options.output.force = force;
    return options;
  }
  const std::string out_ = fresh_folder("out"), victim_ = fresh_folder("victim");
};

TEST_P(ForeignFiles, SurviveReplacementOfAnExport) {
  ASSERT_EQ(outcome_of(options(false)), "fine");
  const std::vector<std::string> foreign = {"attn/00_mine.onnx", "attn/0photos.data/pic.jpg",
                                            "layers/3rd.onnx", "notes.txt", "moe/L07.mlpackage/x"};
  for (const std::string& name : foreign) add_file(out_ + "/" + name);
  ExportOptions narrower = options(true);
  narrower.compile.build.tokens = {1};
  ASSERT_EQ(outcome_of(narrower), "fine");
  for (const std::string& name : foreign) {
    EXPECT_EQ(read_file(out_ + "/" + name), "mine") << name;
    fs::remove_all(out_ + "/" + name);
  }
  const std::string alone = fresh_folder("alone");
  narrower.output.folder = alone;
  ASSERT_EQ(outcome_of(narrower), "fine");
  EXPECT_EQ(all_bytes(out_), all_bytes(alone));
}

TEST_P(ForeignFiles, AreNamedIfInTheWay) {
  for (const char* name : {"manifest.json", "report.json", "embed.bin"})
    add_file(out_ + "/" + name);
  const auto before = all_bytes(out_);
  EXPECT_THAT(outcome_of(options(true)), AllOf(HasSubstr("error[export.foreign_file]"),
                                               HasSubstr("embed.bin, manifest.json, report.json"),
                                               HasSubstr("move them away")));
  EXPECT_EQ(all_bytes(out_), before);
}

TEST_P(ForeignFiles, AreNotFollowedIfLinks) {
  fs::create_directory_symlink(victim_, out_ + "/attn");
  EXPECT_THAT(outcome_of(options(false)), HasSubstr("error[export.out_not_empty]"));
  EXPECT_THAT(outcome_of(options(true)),
              AllOf(HasSubstr("error[export.foreign_file]"), HasSubstr(": attn\n")));
  EXPECT_TRUE(fs::is_empty(victim_));
}

TEST_P(ForeignFiles, AreNotFollowedIfPlantedLater) {
  ExportOptions planted = options(false);
  auto calls = std::make_shared<std::atomic<int>>(0);
  planted.callbacks.stop = [=, this] {
    if (++*calls == 1) fs::create_directory_symlink(victim_, out_ + "/attn");
    return false;
  };
  EXPECT_THAT(outcome_of(planted), AllOf(HasSubstr("error[emit.bad_folder]"), HasSubstr("a link")));
  EXPECT_TRUE(fs::is_empty(victim_));
}

TEST_P(ForeignFiles, KeepHardLinksOfTheJournal) {
  add_file(victim_ + "/file");
  fs::create_hard_link(victim_ + "/file", out_ + "/export.journal.part");
  EXPECT_EQ(outcome_of(options(false)), "fine");
  EXPECT_EQ(read_file(victim_ + "/file"), "mine");
}

// A forced export that stops before removing the earlier files must still have recorded their
// names.
TEST_P(ForeignFiles, JournalListsReplacedFiles) {
  ASSERT_EQ(outcome_of(options(false)), "fine");
  const auto wide = all_bytes(out_);
  ExportOptions narrower = options(true);
  narrower.compile.build.tokens = {1};
  ASSERT_FALSE(export_until(narrower, 1));
  const JournalText journal = read_journal(out_).value();
  for (const auto& [name, bytes] : wide) EXPECT_TRUE(journal.names.contains(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Targets, ForeignFiles, testing::Values("onnx", "ane"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ForeignLinks, AreReplacedWhenPartsAreRewritten) {
  const std::string out = fresh_folder("out"), away = fresh_folder("away");
  const size_t calls = count_polls(foreign_options(out));
  const auto whole = all_bytes(out);
  fs::remove_all(out);
  ASSERT_FALSE(export_until(foreign_options(out), calls));
  const size_t parts = read_journal(out).value().parts.size();
  fs::rename(out + "/attn/L00.data", away + "/L00.data");
  fs::create_symlink(away + "/L00.data", out + "/attn/L00.data");
  const auto resumed = export_model(foreign_options(out));
  ASSERT_TRUE(resumed) << render(resumed.error());
  EXPECT_EQ(resumed->parts_kept, parts - 1);
  EXPECT_FALSE(fs::is_symlink(out + "/attn/L00.data"));
  EXPECT_EQ(all_bytes(out), whole);
}

TEST(ForeignLinks, AreRejectedAsTargetFolders) {
  const std::string out = fresh_folder("out"), victim = fresh_folder("victim");
  fs::create_directory_symlink(victim, out + "/onnx");
  std::vector<ExportOptions> targets = {foreign_options(out + "/onnx"),
                                        foreign_options(out + "/ane", "ane")};
  const auto result = export_targets(targets);
  ASSERT_FALSE(result);
  EXPECT_THAT(render(result.error()),
              AllOf(HasSubstr("error[export.out_not_folder]"), HasSubstr("is a symbolic link")));
  EXPECT_TRUE(fs::is_empty(victim));
}

}  // namespace
}  // namespace moec
