// Checkpoints that change during an export: the error names the change. Even after the file is
// restored, the export starts over only with --force.
#include <gmock/gmock.h>

#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct Damage {
  const char* name;
  void (*apply)(const fs::path& file);
  const char* cause;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

void shrink(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }

void vanish(const fs::path& file) { fs::rename(file, file.string() + ".away"); }

void replace(const fs::path& file) {
  const fs::path copy = file.string() + ".copy";
  fs::copy_file(file, copy);
  fs::last_write_time(copy, fs::last_write_time(file));
  fs::rename(copy, file);
}

void overwrite(const fs::path& file) {
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << '\0';
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));
}

class SourceFault : public testing::TestWithParam<Damage> {};

// A rewritten file counts as changed even if its bytes and modification time are restored; only the
// inode and the change time differ.
TEST_P(SourceFault, IsNamedAndRequiresForce) {
  const CheckpointCopy copy("mixtral_a");
  const std::string whole = fresh_folder("whole");
  const fs::path file = copy.path("model.safetensors");
  const std::string bytes = copy.read("model.safetensors");
  const fs::file_time_type time = fs::last_write_time(file);
  const size_t calls = count_polls(export_options_of(copy.folder(), "onnx", whole));
  for (const int jobs : {1, 2, 8}) {
    const std::string out = fresh_folder("out");
    ExportOptions options = export_options_of(copy.folder(), "onnx", out, jobs);
    auto count = std::make_shared<std::atomic<size_t>>(0);
    options.callbacks.stop = [=] {
      if (++*count == calls / 2) GetParam().apply(file);
      return false;
    };
    const auto failed = export_model(options);
    ASSERT_FALSE(failed);
    EXPECT_THAT(render(failed.error()),
                AllOf(HasSubstr("weights.file_changed"), HasSubstr(file.string()),
                      testing::ContainsRegex(GetParam().cause), HasSubstr("export.unfinished")));
    EXPECT_FALSE(fs::exists(out + "/manifest.json"));
    copy.write("model.safetensors", bytes);
    fs::last_write_time(file, time);
    options.callbacks.stop = nullptr;
    const auto resumed = export_model(options);
    ASSERT_FALSE(resumed);
    EXPECT_THAT(render(resumed.error()),
                AllOf(HasSubstr("export.differs"), HasSubstr("model.safetensors: it was")));
    options.output.force = true;
    const auto again = export_model(options);
    ASSERT_TRUE(again) << render(again.error());
    EXPECT_EQ(again->parts_kept, 0u);
    EXPECT_EQ(all_bytes(out), all_bytes(whole));
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, SourceFault,
                         testing::Values(Damage{"shrinks", shrink,
                                                "and has .* now|the file ends at or before byte"},
                                         Damage{"vanishes", vanish, "was removed"},
                                         Damage{"is_replaced", replace, "was replaced"},
                                         Damage{"is_overwritten", overwrite, "was written to"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
