// Shards above their budgets: `plan` reports them, `export` rejects them unless overridden, and
// `check` finds them in the exported folder.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/manifest/manifest_file.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/manifest_forms.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Target onnx with a limit on attention weights that no split can satisfy.
std::string narrow_target() {
  json target = read_json(source_path("backends/targets/onnx.json"));
  target["name"] = "narrow";
  target["rules"].push_back({{"id", "N1"},
                             {"condition", "weight_bytes_above"},
                             {"kinds", {"attention"}},
                             {"limit", 1000},
                             {"severity", "warning"},
                             {"unit", ""},
                             {"reason", "for tests"},
                             {"confidence", "measured"},
                             {"source", "none"}});
  std::string path = fresh_folder("target") + "/narrow.json";
  std::ofstream(path) << target.dump();
  return path;
}

struct OverBudget {
  const char* name;
  Words flags;
  Words said;  // required substrings of the error
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const OverBudget& over, std::ostream* out) { *out << over.name; }

class OverBudgetExport : public testing::TestWithParam<OverBudget> {};

Words flags_of(const OverBudget& over, Words more = {}) {
  Words flags = over.flags;
  if (over.name == std::string("of_the_target"))
    flags.insert(flags.end(), {"--target", narrow_target()});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST_P(OverBudgetExport, IsRejectedBeforeWriting) {
  const std::string out = fresh_folder("out") + "/out";
  const Outcome refused = export_case("mixtral_a", out, flags_of(GetParam()));
  EXPECT_EQ(refused.exit_code, kExitBadInput) << refused.out;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("error[plan.over_budget]"), HasSubstr("--allow-over-budget")));
  for (const std::string& part : GetParam().said) EXPECT_THAT(refused.err, HasSubstr(part));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_P(OverBudgetExport, FailsTheCheckIfExportedAnyway) {
  const std::string out = fresh_folder("out");
  const Outcome allowed =
      export_case("mixtral_a", out, flags_of(GetParam(), {"--allow-over-budget"}));
  expect_fine(allowed);
  EXPECT_THAT(allowed.err, HasSubstr("warning[plan.over_budget]"));
  Words check = {"check", out};
  if (GetParam().name == std::string("of_the_target"))
    check.insert(check.end(), {"--target", narrow_target()});
  const Outcome checked = run_command(check);
  EXPECT_EQ(checked.exit_code, kExitFellShort);
  EXPECT_THAT(checked.out + checked.err, HasSubstr("error[check.over_budget]"));
  check.emplace_back("--allow-over-budget");
  const Outcome accepted = run_command(check);
  expect_fine(accepted);
  EXPECT_THAT(accepted.out + accepted.err, HasSubstr("warning[check.over_budget]"));
}

INSTANTIATE_TEST_SUITE_P(
    All, OverBudgetExport,
    testing::Values(
        OverBudget{"whole_layers",
                   {"--layers-per-shard", "100", "--max-shard-mb", "0.02"},
                   {"shard L00.layers", "exceed the budget of 20.0 kB", "--layers-per-shard fit"}},
        OverBudget{"attention",
                   {"--max-shard-mb", "attn=0.02"},
                   {"shard L00.attn", "--dtype f16 to halve the bytes",
                    "pass --max-shard-mb attn=0.025 to allow this size"}},
        OverBudget{"slices_of_the_head",
                   {"--head-slices", "1", "--max-shard-mb", "lm_head=0.01"},
                   {"shard lm_head.0", "pass a larger --head-slices"}},
        OverBudget{"ane_book",
                   {"--target", "ane", "--compat", "ane-book", "--max-shard-mb", "moe=0.02"},
                   {"shard L00.moe", "omit --compat"}},
        OverBudget{"of_the_target", {}, {"exceed the budget of 1.0 kB"}}),
    [](const auto& info) { return std::string(info.param.name); });

// The check then finds a shard that grew after an export within its budget.
TEST(Budgets, AreRecordedInTheManifest) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, {"--max-shard-mb", "attn=1,lm_head=1,layers=1"}));
  Manifest manifest = read_manifest(out).value();
  const std::vector<manifest::Budget> recorded = {{ShardKind::attention, 1'000'000},
                                                  {ShardKind::lm_head, 1'000'000}};
  EXPECT_EQ(manifest.build.budgets, recorded);
  expect_fine(run_command({"check", out}));
  manifest.build.budgets[1].bytes = 1000;
  write_both_forms(std::move(manifest), out);
  const Outcome checked = run_command({"check", out});
  EXPECT_EQ(checked.exit_code, kExitFellShort);
  EXPECT_THAT(checked.out + checked.err,
              AllOf(HasSubstr("error[check.over_budget] shard lm_head.0"),
                    Not(HasSubstr("shard L00.attn"))));
}

// The manifest lists the budgets, so an export with other budgets must not resume an interrupted
// one.
TEST(Budgets, RejectResumingWithOtherBudgets) {
  ExportOptions options =
      export_options_of(checkpoint_of("mixtral_a"), "onnx", fresh_folder("whole"));
  at(options.compile.cuts.budgets, ShardKind::attention).bytes = 1'000'000;
  const size_t calls = count_polls(options);
  options.output.folder = fresh_folder("out");
  ASSERT_FALSE(export_until(options, calls / 2).has_value());
  at(options.compile.cuts.budgets, ShardKind::attention).bytes = 2'000'000;
  const auto resumed = export_model(options);
  ASSERT_FALSE(resumed.has_value());
  EXPECT_EQ(resumed.error()[0].code, "export.differs");
  EXPECT_THAT(render(resumed.error()), HasSubstr("--max-shard-mb"));
}

}  // namespace
}  // namespace moec
