// moec doctor: the profile that it writes.
#include "frontends/jobs/doctor/doctor.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/made_up_profile.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TEST(Doctor, WritesProfilesThatReadBack) {
  const DeviceProfile profile = made_up_profile();
  const auto read = parse_device_profile(device_profile_text(profile), "p.json");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(*read, profile);
}

// moec doctor --json > p.json
TEST(Doctor, PrintsReportsThatReadBack) {
  const DeviceProfile profile = made_up_profile();
  const std::string text = json_text(report_json(true, device_profile_json(profile)));
  ASSERT_THAT(text, AllOf(HasSubstr("\"ok\""), HasSubstr("\"diagnostics\"")));
  const auto read = parse_device_profile(text, "p.json");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(*read, profile);

  const auto failed = parse_device_profile(json_text(failure_json({})), "p.json");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().front().code, "device_profile.missing_field");
}

TEST(Doctor, PrintsTheSpeeds) {
  EXPECT_THAT(device_profile_table(made_up_profile()),
              AllOf(HasSubstr("cpu with 2 threads (AVX2), 8.0 GB of memory"),
                    HasSubstr("int8           f32           2.00         2.00"),
                    HasSubstr("disk: 1.0 GB/s in order, 1.0 GB/s in reads of 65.5 kB"),
                    HasSubstr("ops: 1.00 us each, 0.01 us if skipped, 10.00 us per graph")));
}

// --seconds 0 measures each speed three times.
TEST(Doctor, MeasuresThisMachine) {
  const std::string folder = fresh_folder("disk"), out = folder + "/machine.json";
  const Words words = {"doctor",    "--folder", folder,      "--out", out,
                       "--seconds", "0",        "--threads", "1"};
  const Outcome outcome = run_command(words);
  ASSERT_EQ(outcome.exit_code, kExitFine) << outcome.err;
  const auto profile = read_device_profile(out);
  ASSERT_TRUE(profile) << render(profile.error());
  EXPECT_EQ(profile->threads, 1);
  EXPECT_EQ(profile->activations.points().size(), 4u);
  EXPECT_EQ(profile->reads.size(), 3u);
  EXPECT_NE(profile->times_of(AffineEncoding{4, {1, 32}}, DType::f16, 2048), nullptr);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "only the profile remains";

  const Outcome again = run_command(words);
  EXPECT_EQ(again.exit_code, kExitBadInput);
  EXPECT_THAT(again.err, HasSubstr("[output.exists]"));
}

TEST(Doctor, RejectsMissingFolders) {
  const Outcome outcome = run_command({"doctor", "--folder", fresh_folder("a") + "/absent"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("[doctor.folder]"));
}

}  // namespace
}  // namespace moec
