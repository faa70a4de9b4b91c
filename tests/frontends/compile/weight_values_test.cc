// Weights that are NaN, infinite or out of the element type's range stop an export.
#include "frontends/compile/weight_values.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/files.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kUp = "model.layers.1.block_sparse_moe.experts.3.w3.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";
const std::string kLarge("\x89\x47", 2);     // 70144 in bf16, out of f16's range
const std::string kInfinity("\x80\x7f", 2);  // in bf16

Outcome export_copy(const CheckpointCopy& copy, const std::string& out, Words more) {
  Words words = {"export", copy.folder(), "--out", out};
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

void expect_refused(const Outcome& outcome, const std::string& code, const std::string& tensor) {
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[" + code + "]"),
                                 HasSubstr("tensor " + tensor + ": 1 of its values")));
}

// Expects no manifest, no file under the shard's name, and no leftovers.
void expect_unfinished(const std::string& out, const std::string& part) {
  EXPECT_FALSE(fs::exists(out + "/manifest.json"));
  EXPECT_TRUE(fs::exists(out + "/export.journal"));
  for (const auto& [name, bytes] : all_bytes(out))
    EXPECT_THAT(name, AllOf(Not(HasSubstr(".part")), Not(HasSubstr(part))));
}

class Overflow : public testing::TestWithParam<Variant> {};

TEST_P(Overflow, NamesTheTensor) {
  const CheckpointCopy copy;
  copy.overwrite(kUp, kLarge);
  const std::string out = fresh_folder("out");
  expect_refused(export_copy(copy, out, GetParam().flags), "export.cast_overflow", kUp);
  expect_unfinished(out, "moe/L01");
}

INSTANTIATE_TEST_SUITE_P(
    Values, Overflow,
    testing::Values(Variant{"onnx", {"--dtype", "f16"}},
                    Variant{"onnx_bank", {"--dtype", "f16", "--experts", "bank"}},
                    Variant{"ane", {"--target", "ane"}},
                    Variant{"ane_bank", {"--target", "ane", "--experts", "bank"}},
                    Variant{"four_jobs", {"--dtype", "f16", "--jobs", "4"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(WeightValues, StopsAllTargetsAfterAnOverflow) {
  const CheckpointCopy copy;
  copy.overwrite(kUp, kLarge);
  const std::string out = fresh_folder("out");
  expect_refused(export_copy(copy, out, {"--target", "onnx,ane"}), "export.cast_overflow", kUp);
  EXPECT_FALSE(fs::exists(out + "/onnx/manifest.json"));
  EXPECT_FALSE(fs::exists(out + "/ane/manifest.json"));
}

TEST(WeightValues, RejectsAnOverflowingEmbedding) {
  const CheckpointCopy copy;
  copy.overwrite(kEmbedding, kLarge);
  const std::string out = fresh_folder("out");
  expect_refused(export_copy(copy, out, {"--dtype", "f16"}), "export.cast_overflow", kEmbedding);
  expect_unfinished(out, "embed.bin");
}

TEST(WeightValues, FindsNormOverflowsBeforeWriting) {
  const CheckpointCopy copy;
  copy.overwrite("model.norm.weight", kLarge);
  const std::string out = fresh_folder("out");
  expect_refused(export_copy(copy, out, {"--dtype", "f16"}), "export.cast_overflow",
                 "model.norm.weight");
  EXPECT_TRUE(fs::is_empty(out));
}

TEST(WeightValues, AcceptsValuesWithinF32) {
  const CheckpointCopy copy;
  for (const char* tensor : {kUp, kEmbedding, "model.norm.weight"}) copy.overwrite(tensor, kLarge);
  const Outcome exported = export_copy(copy, fresh_folder("out"), {"--dtype", "f32"});
  expect_fine(exported);
  EXPECT_THAT(exported.err, Not(AnyOf(HasSubstr("warning["), HasSubstr("error["))));
}

TEST(WeightValues, ResumesOnceOverflowIsAllowed) {
  const CheckpointCopy copy;
  for (const char* tensor : {kUp, kEmbedding}) copy.overwrite(tensor, kLarge);
  const std::string out = fresh_folder("out"), whole = fresh_folder("whole");
  EXPECT_EQ(export_copy(copy, out, {"--dtype", "f16"}).exit_code, kExitBadInput);
  for (const std::string& folder : {out, whole}) {
    const Outcome exported = export_copy(copy, folder, {"--dtype", "f16", "--allow-overflow"});
    expect_fine(exported);
    for (const char* tensor : {kUp, kEmbedding})
      EXPECT_THAT(exported.err, AllOf(HasSubstr("warning[export.cast_overflow]"),
                                      HasSubstr(std::string(tensor) + ": 1 of its values")));
  }
  EXPECT_EQ(all_bytes(out), all_bytes(whole));
  const Outcome checked = run_command({"check", out});
  EXPECT_EQ(checked.exit_code, kExitFellShort);
  EXPECT_THAT(checked.out + checked.err, HasSubstr("check.cast_overflow"));
}

// w1 is an expert's gate projection, w2 its down projection, and w3 its up projection.
std::string projection(const char* name) {
  return fmt::format("model.layers.1.block_sparse_moe.experts.3.{}.weight", name);
}

TEST(WeightValues, FoldsPowersOfTwo) {
  for (const char* name : {"w3", "w2"})
    for (const Words& form : {Words{"--dtype", "f16"}, Words{"--target", "ane"},
                              Words{"--dtype", "f16", "--experts", "bank"}}) {
      const CheckpointCopy copy;
      copy.overwrite(projection(name), kLarge);
      const std::string out = fresh_folder("out");
      Words flags = form;
      flags.emplace_back("--fold-overflow");
      const Outcome exported = export_copy(copy, out, flags);
      expect_fine(exported);
      EXPECT_THAT(exported.err, AllOf(HasSubstr("tensor " + projection(name) + ": divided by 2^1"),
                                      Not(HasSubstr("cast_overflow"))));
      expect_fine(run_command({"check", out}));
    }
}

TEST(WeightValues, WarnsAboutInexactFolds) {
  const CheckpointCopy copy;
  // Half of 1.0078125 · 2^-17 has a bit below 2^-24, the smallest positive f16 number.
  copy.overwrite(projection("w3"), kLarge + std::string("\x01\x37", 2));
  const Outcome exported =
      export_copy(copy, fresh_folder("out"), {"--dtype", "f16", "--fold-overflow"});
  expect_fine(exported);
  EXPECT_THAT(exported.err, AllOf(HasSubstr("warning[export.fold_inexact]"),
                                  HasSubstr("1 of its values lose bits")));
}

TEST(WeightValues, RejectsUnfoldableOverflows) {
  const auto exported = [](const std::vector<const char*>& names) {
    const CheckpointCopy copy;
    for (const char* name : names) copy.overwrite(projection(name), kLarge);
    return export_copy(copy, fresh_folder("out"), {"--dtype", "f16", "--fold-overflow"});
  };
  expect_refused(exported({"w1"}), "export.cast_overflow", projection("w1"));
  EXPECT_EQ(exported({"w2", "w3"}).exit_code, kExitBadInput);
}

// Parts that an interrupted export wrote with the flag are checked again when it resumes without.
TEST(WeightValues, ChecksResumedPartsAgainstNewFlags) {
  const CheckpointCopy copy;
  copy.overwrite(kEmbedding, kLarge);
  const std::string out = fresh_folder("out");
  ExportOptions options = export_options_of(copy.folder(), "ane", out);
  options.values.overflow = true;
  const size_t polls =
      count_polls(export_options_of(checkpoint_of("mixtral_a"), "ane", fresh_folder("whole")));
  ASSERT_FALSE(export_until(options, polls - 1));
  ASSERT_TRUE(fs::exists(out + "/embed.bin"));
  options.values.overflow = false;
  const auto resumed = export_model(options);
  ASSERT_FALSE(resumed);
  EXPECT_THAT(render(resumed.error()), HasSubstr("export.cast_overflow"));
}

TEST(WeightValues, RequiresFiniteCheckpointValues) {
  for (const char* tensor : {kUp, kEmbedding})
    for (const char* dtype : {"f16", "f32"}) {
      const CheckpointCopy copy;
      copy.overwrite(tensor, kInfinity);
      const std::string out = fresh_folder("out");
      expect_refused(export_copy(copy, out, {"--dtype", dtype}), "export.nonfinite_weight", tensor);
      const Outcome allowed = export_copy(copy, out, {"--dtype", dtype, "--allow-nonfinite"});
      expect_fine(allowed);
      EXPECT_THAT(allowed.err, HasSubstr("warning[export.nonfinite_weight]"));
    }
}

// The digests are valid, so only reading the values reveals them.
TEST(WeightValues, CountsNonfiniteValuesInTheCheck) {
  for (const char* target : {"onnx", "ane"}) {
    const CheckpointCopy copy;
    copy.overwrite(kUp, kInfinity);
    const std::string out = fresh_folder("out");
    expect_fine(export_copy(copy, out, {"--target", target, "--allow-nonfinite"}));
    const Outcome checked = run_command({"check", out, "--json"});
    expect_fine(checked);
    const auto report = nlohmann::json::parse(checked.out);
    std::vector<nlohmann::json> notes;
    for (const auto& found : report["diagnostics"])
      if (found["code"] == "coverage.nonfinite_weight") notes.push_back(found);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0]["severity"], "note");
    EXPECT_THAT(notes[0]["cause"].get<std::string>(),
                StartsWith("1 of its weights is NaN or infinite"));
  }
}

// The check must decode whole blocks instead of inspecting the bytes of their parts.
TEST(WeightValues, CountsNonfiniteValuesOfBlocks) {
  const std::string path = fresh_folder("blocks") + "/w";
  fs::create_directories(fs::path(path).parent_path());
  write_file(path,
             // one block with a scale of 0, one with a NaN scale
             std::string(18, '\0') + std::string(18, '\xff'));
  WeightTable table;
  table.files = {{path, 36}};
  table.tensors = {{"a", {0, 0, {DType::u8, {1, 18}}}}, {"b", {0, 18, {DType::u8, {1, 18}}}}};
  const WeightReader reader = WeightReader::open(table).value();
  const WeightView joined = concat_view(
      0, {tensor_view("a", {DType::u8, {1, 18}}), tensor_view("b", {DType::u8, {1, 18}})});
  const auto findings =
      scan_values(then(joined, UnblockStep{BlockType::q4_0}), reader, {}, "L00.moe");
  ASSERT_TRUE(findings) << render(findings.error());
  ASSERT_EQ(findings->size(), 1u);
  EXPECT_THAT(findings->front().cause, StartsWith("32 of its values"));
}

TEST(WeightValues, DistinguishesInfinityFromOverflow) {
  const CheckpointCopy copy;
  copy.overwrite(kUp, kInfinity + kLarge);
  const std::string out = fresh_folder("out");
  const Outcome exported = export_copy(copy, out, {"--dtype", "f16", "--allow-overflow"});
  expect_refused(exported, "export.nonfinite_weight", kUp);
  EXPECT_THAT(exported.err, HasSubstr("warning[export.cast_overflow]"));
}

}  // namespace
}  // namespace moec
