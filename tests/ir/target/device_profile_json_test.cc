// Files of device profiles: strict reading, and writing.
#include "ir/target/device_profile_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "ir/base/report_json.h"
#include "tests/made_up_profile.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

const std::string kText = R"({
  "format": "moec device profile", "version": 1,
  "engine": "cpu", "vectors": "AVX2", "threads": 2,
  "memory_bytes": 8000000000, "memory_rate": 2e10,
  "forms": [{"form": "int4:32", "dtype": "f16",
             "times": [{"weights": 100, "tokens": 1, "seconds": 0.5}]}],
  "activations": [{"weights": 100, "tokens": 1, "seconds": 0.25}],
  "element_seconds": {"move": 1e-9, "transpose": 2e-9, "arithmetic": 3e-9, "exponential": 4e-9,
                      "reduce": 5e-9},
  "op_seconds": 1e-6, "idle_op_seconds": 1e-8, "run_seconds": 2e-6,
  "sequential_rate": 1e9, "random_reads": [{"bytes": 4096, "rate": 1e8}]
})";

TEST(DeviceProfileFile, ReadsEveryField) {
  const auto profile = parse_device_profile(kText, "p.json");
  ASSERT_TRUE(profile) << render(profile.error());
  EXPECT_EQ(profile->engine, "cpu");
  EXPECT_EQ(profile->vectors, "AVX2");
  EXPECT_EQ(profile->threads, 2);
  EXPECT_EQ(profile->memory_bytes, 8'000'000'000);
  EXPECT_EQ(profile->memory_rate, 2e10);
  ASSERT_EQ(profile->forms.size(), 1u);
  EXPECT_EQ(to_string(profile->forms[0].form), "int4:32");
  EXPECT_EQ(profile->forms[0].dtype, DType::f16);
  EXPECT_EQ(profile->forms[0].times.seconds(100, 1), 0.5);
  EXPECT_EQ(profile->activations.seconds(100, 1), 0.25);
  EXPECT_EQ(profile->element_seconds, (std::array{1e-9, 2e-9, 3e-9, 4e-9, 5e-9}));
  EXPECT_EQ(profile->op_seconds, 1e-6);
  EXPECT_EQ(profile->idle_op_seconds, 1e-8);
  EXPECT_EQ(profile->run_seconds, 2e-6);
  EXPECT_EQ(profile->sequential_rate, 1e9);
  EXPECT_EQ(profile->reads, (std::vector<RandomReads>{{4096, 1e8}}));
}

struct BadText {
  const char *from, *to, *code;
};

TEST(DeviceProfileFile, RejectsBadFiles) {
  for (const BadText& bad : {
           BadText{"{", "[", "device_profile.syntax"},
           BadText{"\"threads\": 2", "\"threads\": 2, \"cores\": 2",
                   "device_profile.unknown_field"},
           BadText{"\"threads\": 2,", "", "device_profile.missing_field"},
           BadText{"\"threads\": 2", "\"threads\": 2, \"threads\": 2",
                   "device_profile.duplicate_key"},
           BadText{"\"threads\": 2", "\"threads\": 0", "device_profile.bad_value"},
           BadText{"\"version\": 1", "\"version\": 2", "device_profile.bad_value"},
           BadText{"moec device profile", "moec trace", "device_profile.bad_value"},
           BadText{"int4:32", "int5", "device_profile.bad_value"},
           BadText{"int4:32", "q8_0", "device_profile.bad_value"},
           BadText{"\"f16\"", "\"i32\"", "device_profile.bad_value"},
           BadText{"\"seconds\": 0.5", "\"seconds\": 0", "device_profile.bad_value"},
           BadText{"\"seconds\": 0.5", "\"seconds\": 0.5, \"mean\": 1",
                   "device_profile.unknown_field"},
           BadText{"\"seconds\": 0.25}",
                   "\"seconds\": 0.25}, {\"weights\": 9, \"tokens\": 9, "
                   "\"seconds\": 1}",
                   "device_profile.bad_value"},
           BadText{"\"move\": 1e-9", "\"moves\": 1e-9", "device_profile.missing_field"},
           BadText{"2e10", "-1", "device_profile.bad_value"},
           BadText{"[{\"bytes\": 4096, \"rate\": 1e8}]", "[]", "device_profile.bad_value"},
           BadText{"\"rate\": 1e8}", "\"rate\": 1e8}, {\"bytes\": 4096, \"rate\": 1e8}",
                   "device_profile.bad_value"},
       }) {
    const auto profile = parse_device_profile(replaced(kText, bad.from, bad.to), "p.json");
    ASSERT_FALSE(profile) << bad.to;
    EXPECT_EQ(profile.error().front().code, bad.code) << bad.to;
    EXPECT_EQ(profile.error().front().place.file, "p.json") << bad.to;
    EXPECT_THAT(profile.error().front().next_step, HasSubstr("moec doctor")) << bad.to;
  }
}

TEST(DeviceProfileFile, RejectsMissingFiles) {
  const auto profile = read_device_profile(testing::TempDir() + "/absent.json");
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().front().code, "device_profile.file");
}

TEST(DeviceProfileFile, WritesProfilesThatReadBack) {
  const DeviceProfile profile = made_up_profile();
  const auto read = parse_device_profile(device_profile_text(profile), "p.json");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(*read, profile);
}

// moec doctor --json > p.json
TEST(DeviceProfileFile, ReadsReports) {
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

}  // namespace
}  // namespace moec
