#include "frontends/jobs/validate/thresholds.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json builtin_file() {
  return json::parse(read_file(source_path("frontends/jobs/validate/thresholds.json")));
}

std::string code_of_table(const json& table) {
  const auto parsed = ThresholdTable::parse(table.dump(), "mine.json");
  return parsed ? "" : parsed.error().front().code;
}

json validated(const std::string& golden_case, const std::string& out, Words more = {},
               int exit_code = kExitFine) {
  more.emplace_back("--json");
  const Outcome outcome = validate_case(golden_case, out, more);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
  return json::parse(outcome.out);
}

TEST(Thresholds, AllowLargerErrorsForFewerBits) {
  const ThresholdTable& table = ThresholdTable::builtin();
  EXPECT_EQ(table.of_bits(32), (Thresholds{32, 0.999999, 1e-4, 1e-4, 1, 1, true}));
  EXPECT_EQ(table.of_bits(16), (Thresholds{16, 0.9999, 0.02, 0.01, 0, 0, false}));
  for (size_t i = 1; i < kThresholdBits.size(); ++i) {
    const Thresholds &more = table.of_bits(kThresholdBits[i - 1]),
                     &fewer = table.of_bits(kThresholdBits[i]);
    EXPECT_LT(fewer.cosine, more.cosine) << fewer.bits;
    EXPECT_GE(fewer.relative_l2, more.relative_l2) << fewer.bits;
  }
}

TEST(Thresholds, RejectInvalidFiles) {
  EXPECT_EQ(code_of_table(builtin_file()), "");
  json table = builtin_file();
  table["thresholds"].erase(3);
  EXPECT_EQ(code_of_table(table), "thresholds.bad_value");
  table = builtin_file();
  table["thresholds"].push_back(table["thresholds"][0]);
  EXPECT_EQ(code_of_table(table), "thresholds.bad_value");
  table = builtin_file();
  table["thresholds"][2]["bits"] = 5;
  EXPECT_EQ(code_of_table(table), "thresholds.bad_value");
  table = builtin_file();
  table["thresholds"][2]["cosine"] = 1.5;
  EXPECT_EQ(code_of_table(table), "thresholds.bad_value");
  table = builtin_file();
  table["thresholds"][1]["worst_row"] = -1;
  EXPECT_EQ(code_of_table(table), "thresholds.bad_value");
  table["thresholds"][1].erase("worst_row");
  EXPECT_EQ(code_of_table(table), "");
  table["thresholds"][2].erase("cosine");
  EXPECT_EQ(code_of_table(table), "thresholds.missing_field");
  table["thresholds"][2]["cosin"] = 1;
  EXPECT_EQ(code_of_table(table), "thresholds.missing_field");
}

TEST(Thresholds, MatchTheBitsOfEachShard) {
  const std::string out = fresh_folder("out"), golden = "olmoe_a";
  expect_fine(
      export_case(golden, out, {"--weights", "experts=int4,attn=int8", "--form", "matmul"}));
  const json report = validated(golden, out);
  EXPECT_EQ(report["thresholds"]["bits"], 4);
  for (const json& shard : report["shards"]) {
    const std::string name = shard["shard"];
    const int bits = name.ends_with(".attn") ? 8 : name.ends_with(".moe") ? 4 : 32;
    EXPECT_EQ(shard["thresholds"]["bits"], bits) << name;
    EXPECT_EQ(shard["passed"], true) << name;
  }
  json stricter = builtin_file();
  stricter["thresholds"][2]["cosine"] = 1;
  const std::string file = fresh_folder("mine") + "/mine.json";
  write_file(file, stricter.dump());
  const json missed = validated(golden, out, {"--thresholds", file}, kExitFellShort);
  for (const json& shard : missed["shards"])
    EXPECT_EQ(shard["passed"], shard["thresholds"]["bits"] != 8) << shard;
  write_file(file, "{}");
  EXPECT_EQ(validated(golden, out, {"--thresholds", file}, kExitBadInput)["diagnostics"][0]["code"],
            "thresholds.missing_field");
}

// The limits over all rows would accept an error that exceeds the limit of a single row.
TEST(Thresholds, RejectABadWorstRow) {
  const std::string out = fresh_folder("out"), file = fresh_folder("mine") + "/mine.json";
  expect_fine(export_case("olmoe_a", out));
  json table = builtin_file();
  table["thresholds"][0]["worst_row"] = 0;
  write_file(file, table.dump());
  const json missed = validated("olmoe_a", out, {"--thresholds", file}, kExitFellShort);
  EXPECT_EQ(missed["shards"][0]["passed"], false);
  EXPECT_GT(missed["shards"][0]["alone"]["worst_row"], missed["shards"][0]["alone"]["relative_l2"]);
  EXPECT_THAT(std::string(missed["diagnostics"][0]["cause"]), HasSubstr("worst row"));
}

// A float export has no quantized weights, so only its element type determines the limits.
TEST(Thresholds, ApplyToFloatExports) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("olmoe_a", out));
  EXPECT_EQ(validated("olmoe_a", out)["thresholds"]["bits"], 32);
  EXPECT_EQ(validated("olmoe_a", out, {"--precision", "f16"})["thresholds"]["bits"], 16);
  const Outcome text = validate_case("olmoe_a", out);
  EXPECT_THAT(text.out,
              HasSubstr("thresholds for 32 bits: cosine >= 0.999999, relative L2 <= 0.0001, "
                        "per row <= 0.0001"));
}

}  // namespace
}  // namespace moec
