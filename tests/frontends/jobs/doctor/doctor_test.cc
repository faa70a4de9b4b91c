// moec doctor: its measurement, and the speeds that it prints.
#include "frontends/jobs/doctor/doctor.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/frontends/cli/golden_case.h"
#include "tests/made_up_profile.h"
#include "tests/small_measurement.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TEST(Doctor, PrintsTheSpeeds) {
  EXPECT_THAT(device_profile_table(made_up_profile()),
              AllOf(HasSubstr("cpu with 2 threads (AVX2), 8.0 GB of memory"),
                    HasSubstr("int8           f32           2.00         2.00"),
                    HasSubstr("disk: 1.0 GB/s in order, 1.0 GB/s in reads of 65.5 kB"),
                    HasSubstr("ops: 1.00 us each, 0.01 us if skipped, 10.00 us per graph")));
}

TEST(Doctor, WritesTheMeasuredProfile) {
  const std::string folder = fresh_folder("disk");
  DoctorOptions options{.measure = small_measurement(folder)};
  options.out.path = folder + "/machine.json";
  const auto measured = profile_machine(options);
  ASSERT_TRUE(measured) << render(measured.error());
  EXPECT_EQ(measured->threads, 1);
  EXPECT_EQ(measured->activations.points().size(), 2u);
  EXPECT_EQ(measured->reads.size(), 2u) << "of 64 KiB and 1 MiB";
  EXPECT_NE(measured->times_of(AffineEncoding{4, {1, 32}}, DType::f16, 2048), nullptr);
  const auto read = read_device_profile(options.out.path);
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(*read, *measured);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "only the profile remains";
}

TEST(Doctor, KeepsExistingFiles) {
  const std::string folder = fresh_folder("disk"), out = folder + "/machine.json";
  write_file(out, "kept");
  const Outcome outcome = run_command({"doctor", "--folder", folder, "--out", out});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("[output.exists]"));
  EXPECT_EQ(read_file(out), "kept");
}

TEST(Doctor, RejectsMissingFolders) {
  const Outcome outcome = run_command({"doctor", "--folder", fresh_folder("a") + "/absent"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("[doctor.folder]"));
}

}  // namespace
}  // namespace moec
