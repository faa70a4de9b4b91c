// Uses a handwritten measured.json in the format of scripts/confirm_on_mac.py, which was not
// measured on a Mac.
#include "frontends/jobs/check/measured.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::HasSubstr;

constexpr std::string_view kMeasured = R"({
 "format": "moec-measured-placement", "version": 1, "units": "CPU_AND_NE",
 "machine": {"chip": "Apple M1", "macos": "15.1", "coremltools": "9.0"},
 "graphs": [{"shard": "L00.moe", "tokens": 1, "digest": "d1", "ops": [
  {"name": "w", "op": "ios16.constexpr_lut_to_dense", "preferred": null, "supported": [], "cost": null},
  {"name": "gate", "op": "ios17.conv", "preferred": "neural_engine", "supported": ["cpu"], "cost": 0.5},
  {"name": "up", "op": "ios17.conv", "preferred": "gpu", "supported": ["cpu"], "cost": 0.4},
  {"name": "small", "op": "matmul", "preferred": "cpu", "supported": ["cpu"], "cost": 0.1},
  {"name": "smaller", "op": "matmul", "preferred": "neural_engine", "supported": ["cpu"], "cost": 0},
  {"name": "sum", "op": "add", "preferred": null, "supported": [], "cost": null}]}]
})";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kMeasured);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class MeasuredPlacement : public testing::Test {
 protected:
  MeasuredPlacement() {
    report_.target.unit = "Neural Engine";
    manifest::Shard described;
    described.name = "L00.moe";
    described.widths.push_back({1, {"moe/L00.mlpackage", 10, "d1"}, "", {}, {}});
    report_.manifest.shards.push_back(described);
    CheckedShard checked;
    checked.name = "L00.moe";
    CheckedWidth width{1, "moe/L00.mlpackage", {}};
    auto add = [&](const char* name, const char* unit, const char* rule) {
      width.placement.ops.push_back(
          {.name = name, .file_name = name, .op = "op", .unit = unit, .rule = rule});
    };
    add("gate", "Neural Engine", "");
    add("up", "Neural Engine", "");
    add("small", "CPU", "P3");
    add("smaller", "CPU", "P3");
    add("sum", "Neural Engine", "");
    checked.widths.push_back(width);
    report_.shards.push_back(checked);
  }

  std::string error_of(const std::string& text) {
    auto measured = parse_measured(text, "measured.json");
    if (!measured) return measured.error()[0].code;
    auto comparison = compare_placement(report_, *measured);
    return comparison ? "" : comparison.error()[0].code;
  }

  CheckReport report_;
};

TEST_F(MeasuredPlacement, IsComparedPerOp) {
  const auto measured = parse_measured(kMeasured, "measured.json").value();
  EXPECT_EQ(measured.chip, "Apple M1");
  const auto comparison = compare_placement(report_, measured).value();
  EXPECT_EQ(measured.engine, "Core ML of macOS 15.1");
  EXPECT_EQ(measured.tools, "coremltools 9.0");
  EXPECT_EQ(comparison.ops, 5);
  EXPECT_EQ(comparison.confirmed, 2);  // gate, smaller
  EXPECT_EQ(comparison.agreed, 2);     // gate, small
  EXPECT_EQ(comparison.unknown, 2);    // w, sum
  ASSERT_EQ(comparison.differences.size(), 2u);
  EXPECT_EQ(comparison.differences[0].op, "up");
  EXPECT_EQ(comparison.differences[0].measured, "gpu");
  EXPECT_TRUE(comparison.differences[0].is_worse);
  EXPECT_EQ(comparison.differences[1].op, "smaller");
  EXPECT_FALSE(comparison.differences[1].is_worse);
  EXPECT_EQ(comparison.rules.at("P3").confirmed, 1);
  EXPECT_EQ(comparison.rules.at("P3").contradicted, 1);
  EXPECT_TRUE(comparison.is_worse());
}

TEST_F(MeasuredPlacement, IsWorseOnlyForMovedOps) {
  const auto measured = parse_measured(with("\"gpu\"", "\"neural_engine\""), "m").value();
  EXPECT_FALSE(compare_placement(report_, measured).value().is_worse());
}

// The format of scripts/confirm_with_qnn.py.
constexpr std::string_view kOfQnn = R"({
 "format": "moec-measured-placement", "version": 1,
 "machine": {"engine": "qnn", "version": "2.51.0", "chip": "v75", "packages": "onnxruntime-qnn 2.7.0"},
 "graphs": [{"shard": "L00.moe", "tokens": 1, "digest": "d1", "cosine": 0.5, "seconds": 1, "ops": [
  {"name": "gate", "op": "Conv", "preferred": "HTP", "qnn_op": "Conv2d"},
  {"name": "splat", "op": "Expand", "preferred": "HTP"},
  {"name": "up", "op": "Gemm", "preferred": "CPU", "message": "Failed to add node."}]}]
})";

TEST_F(MeasuredPlacement, ComparesMeasurementsOfOtherEngines) {
  report_.target.unit = "HTP";
  for (PlacedOp& op : report_.shards[0].widths[0].placement.ops)
    if (op.unit == "Neural Engine") op.unit = "HTP";
  const auto measured = parse_measured(kOfQnn, "measured.json").value();
  EXPECT_EQ(measured.engine, "qnn 2.51.0");
  const auto comparison = compare_placement(report_, measured).value();
  EXPECT_EQ(comparison.replaced, 3);  // small, smaller, sum
  EXPECT_EQ(comparison.ops, 2);
  EXPECT_EQ(comparison.confirmed, 1);
  EXPECT_EQ(comparison.unknown, 1);
  ASSERT_EQ(comparison.differences.size(), 1u);
  EXPECT_EQ(comparison.differences[0].op, "up");
  EXPECT_EQ(comparison.differences[0].message, "Failed to add node.");
  EXPECT_EQ(comparison.farthest->cosine, 0.5);
  EXPECT_TRUE(comparison.is_worse());
}

TEST_F(MeasuredPlacement, IsWorseForARejectedFile) {
  std::string text(kOfQnn);
  const size_t at = text.find("{\"name\"");
  text = text.substr(0, at) + "], \"error\": \"finalize\"}]}";
  const auto measured = parse_measured(text, "measured.json").value();
  const auto comparison = compare_placement(report_, measured).value();
  ASSERT_EQ(comparison.refused.size(), 1u);
  EXPECT_EQ(comparison.refused[0]->error, "finalize");
  EXPECT_EQ(comparison.ops, 5);
  EXPECT_EQ(comparison.replaced, 0);
  EXPECT_TRUE(comparison.is_worse());
}

TEST_F(MeasuredPlacement, RejectsAnotherExport) {
  EXPECT_EQ(error_of(with("\"d1\"", "\"d2\"")), "measured.other_export");
  EXPECT_EQ(error_of(with("\"tokens\": 1", "\"tokens\": 2")), "measured.other_export");
  EXPECT_EQ(error_of(with("L00.moe", "L01.moe")), "measured.unknown_shard");
  EXPECT_EQ(error_of(with("\"gate\"", "\"gait\"")), "measured.unknown_op");
}

TEST_F(MeasuredPlacement, RejectsMalformedFiles) {
  EXPECT_EQ(error_of("{"), "measured.syntax");
  EXPECT_EQ(error_of(std::string(kMeasured) + '\0'), "measured.syntax");
  EXPECT_EQ(error_of(std::string(kMeasured) + "{}"), "measured.syntax");
  EXPECT_EQ(error_of(with("\"version\": 1", "\"version\": 1, \"version\": 1")), "measured.syntax");
  EXPECT_EQ(error_of("[]"), "measured.field");
  EXPECT_EQ(error_of(with("moec-measured", "other-measured")), "measured.field");
  EXPECT_EQ(error_of(with("\"version\": 1", "\"version\": 2")), "measured.field");
  EXPECT_EQ(error_of(with("\"machine\"", "\"box\"")), "measured.field");
  EXPECT_EQ(error_of(with("\"tokens\": 1", "\"tokens\": \"1\"")), "measured.field");
  EXPECT_EQ(error_of(with("\"preferred\": \"gpu\"", "\"preferred\": 3")), "measured.field");
  EXPECT_EQ(read_measured("/nowhere/measured.json").error()[0].code, "measured.open");
  EXPECT_THAT(parse_measured("{}", "my.json").error()[0].place.file, HasSubstr("my.json"));
}

}  // namespace
}  // namespace moec
