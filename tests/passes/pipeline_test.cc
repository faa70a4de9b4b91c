#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ir/base/invariant.h"
#include "passes/pass_options.h"
#include "tests/files.h"
#include "tests/passes/moe_shards.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

Shard small_moe() {
  return moe_shard({.experts = 3, .width = 4, .inner = 2, .tokens = 2}, Layout::channels, kTopTwo);
}

std::vector<const Pass*> passes_named(std::string_view names) {
  auto passes = parse_pipeline(names);
  EXPECT_TRUE(passes.has_value());
  return passes.value_or(std::vector<const Pass*>{});
}

fs::path fresh_dir(const char* name) {
  fs::path dir = fs::path(testing::TempDir()) / "moec_pipeline_test" / name;
  fs::remove_all(dir);
  return dir;
}

std::vector<std::string> files_in(const fs::path& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.insert(entry.path().filename());
  return {names.begin(), names.end()};
}

TEST(PassTable, HasUniqueNames) {
  std::set<std::string_view> names;
  for (const Pass& pass : all_passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_EQ(find_pass(pass.name), &pass);
    EXPECT_FALSE(pass.summary.empty());
  }
  EXPECT_EQ(find_pass("no_such_pass"), nullptr);
}

TEST(DefaultPipeline, OrdersPassesForAllOptions) {
  for (ExpertForm experts : {ExpertForm::unrolled, ExpertForm::bank})
    for (ProjectionForm projection : {ProjectionForm::conv, ProjectionForm::matmul}) {
      const auto passes =
          default_pipeline({.experts = experts, .target = {.projection = projection}});
      EXPECT_TRUE(check_pipeline(passes, Form::model).has_value());
      EXPECT_EQ(passes.back()->to, Form::placed);
    }
}

TEST(CheckPipeline, RejectsAWrongOrder) {
  const auto passes = passes_named("lower_router,linear_to_conv,lower_gated_mlp");
  const Status status = check_pipeline(passes, Form::model);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error()[0].code, "passes.order");
  EXPECT_EQ(status.error()[0].cause,
            "pass linear_to_conv requires form lowered, but the shard is in form model");
}

TEST(CheckPipeline, RejectsAShardInAnotherForm) {
  EXPECT_FALSE(check_pipeline(passes_named("eliminate_dead"), Form::model).has_value());
  EXPECT_TRUE(check_pipeline(passes_named("eliminate_dead"), Form::static_ops).has_value());
}

TEST(ParsePipeline, SuggestsTheNearestPass) {
  const auto passes = parse_pipeline("lower_router,lower_atention");
  ASSERT_FALSE(passes.has_value());
  EXPECT_EQ(passes.error()[0].code, "passes.unknown");
  EXPECT_EQ(passes.error()[0].cause,
            "unknown pass 'lower_atention' (did you mean 'lower_attention'?)");
  EXPECT_FALSE(parse_pipeline("").has_value());
}

TEST(RunPipeline, ReportsEachPass) {
  PassContext context;
  const auto passes = passes_named("lower_router,lower_attention,unroll_experts");
  auto result = run_pipeline(small_moe(), passes, context);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->passes.size(), 3u);
  EXPECT_EQ(result->passes[0].pass, "lower_router");
  EXPECT_TRUE(result->passes[0].changed);
  EXPECT_GT(result->passes[0].ops_after, result->passes[0].ops_before);
  EXPECT_FALSE(result->passes[1].changed) << "there is no attention";
  EXPECT_EQ(result->passes[1].ops_before, result->passes[1].ops_after);
  EXPECT_EQ(result->passes[2].ops_after, result->shard.ops.size());
  for (const PassReport& report : result->passes) EXPECT_GE(report.seconds, 0);
}

TEST(RunPipeline, RejectsAWrongOrderBeforeRunning) {
  PassContext context;
  auto result = run_pipeline(small_moe(), passes_named("lower_router,linear_to_conv"), context, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(has_code(result.error(), "passes.order"));
}

TEST(RunPipeline, RejectsInvalidShards) {
  Shard broken = small_moe();
  broken.outputs.push_back(broken.outputs[0]);
  PassContext context;
  auto result = run_pipeline(broken, passes_named("lower_router"), context);
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(has_code(result.error(), "shard.s3"));
}

TEST(RunPipeline, BisectsToTheFirstPasses) {
  PassContext context;
  const auto passes = default_pipeline(context.options);
  for (size_t count : {size_t{0}, size_t{2}, size_t{99}}) {
    auto result = run_pipeline(small_moe(), passes, context, {.bisect = count});
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->passes.size(), std::min(count, passes.size()));
  }
  auto none = run_pipeline(small_moe(), passes, context, {.bisect = 0});
  EXPECT_EQ(none->shard, small_moe());
}

TEST(RunPipeline, OmitsSkippedPasses) {
  PassContext context;
  const auto passes = default_pipeline(context.options);
  auto result = run_pipeline(small_moe(), passes, context, {.skip = {"eliminate_common"}});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->passes.size(), passes.size() - 1);
  for (const PassReport& report : result->passes) EXPECT_NE(report.pass, "eliminate_common");
}

TEST(RunPipeline, RejectsSkippingANeededPass) {
  PassContext context;
  auto result = run_pipeline(small_moe(), default_pipeline(context.options), context,
                             {.skip = {"linear_to_conv"}});
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(has_code(result.error(), "passes.order"));
}

TEST(RunPipeline, RejectsUnknownNamesInOptions) {
  PassContext context;
  const auto passes = passes_named("lower_router");
  for (const RunOptions& options :
       {RunOptions{.skip = {"lower_routr"}}, RunOptions{.dump_after = {"everything"}}}) {
    auto result = run_pipeline(small_moe(), passes, context, options);
    ASSERT_FALSE(result.has_value());
    EXPECT_TRUE(has_code(result.error(), "passes.unknown"));
  }
}

Result<Shard> refusing(const Shard&, PassContext&) { return fail("test.refused", "it will not"); }

TEST(RunPipeline, NumbersDumpsAndListsChanges) {
  const fs::path dir = fresh_dir("dumps");
  PassContext context;
  const auto passes = passes_named("lower_router,lower_attention,unroll_experts");
  auto result =
      run_pipeline(small_moe(), passes, context, {.dump_after = {"all"}, .dump_dir = dir.string()});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(
      files_in(dir / "L00.moe"),
      (std::vector<std::string>{"0001.lower_router.changed.ir", "0002.lower_attention.unchanged.ir",
                                "0003.unroll_experts.changed.ir"}));
  EXPECT_EQ(read_file(dir / "L00.moe" / "0003.unroll_experts.changed.ir"), print(result->shard));
}

TEST(RunPipeline, WritesDumpsIntoASubfolder) {
  const fs::path dir = fresh_dir("subfolder");
  const Pass pass{"refusing", refusing, Form::model, Form::model, ""};
  const std::vector<const Pass*> passes = {find_pass("lower_router"), &pass};
  PassContext context;
  auto result =
      run_pipeline(small_moe(), passes, context,
                   {.dump_after = {"lower_router"}, .dump_dir = dir.string(), .subfolder = "ane"});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(files_in(dir), std::vector<std::string>{"ane"});
  EXPECT_EQ(files_in(dir / "ane"),
            (std::vector<std::string>{"L00.moe", "L00.moe.refusing.repro.ir"}));
}

TEST(RunPipeline, DumpsOnlyTheRequestedPasses) {
  const fs::path dir = fresh_dir("one_dump");
  PassContext context;
  auto result = run_pipeline(small_moe(), passes_named("lower_router,unroll_experts"), context,
                             {.dump_after = {"lower_router"}, .dump_dir = dir.string()});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(files_in(dir / "L00.moe").size(), 1u);
}

TEST(RunPipeline, ReportsUnwritableDumps) {
  const fs::path dir = fresh_dir("blocked");
  fs::create_directories(dir);
  std::ofstream(dir / "file") << "in the way";
  PassContext context;
  auto result =
      run_pipeline(small_moe(), passes_named("lower_router"), context,
                   {.dump_after = {"all"}, .dump_dir = (dir / "file" / "below").string()});
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(has_code(result.error(), "passes.write"));
}

// ---- Failing passes ----------------------------------------------------------------------------

Result<Shard> breaking(const Shard& shard, PassContext&) {
  Shard broken = shard;
  broken.outputs[0].value = ValueId{12345};
  return broken;
}

Result<Shard> lying(const Shard& shard, PassContext&) { return shard; }

void expect_reproducer(const char* dir_name, const Pass& pass, std::string_view code) {
  const fs::path dir = fresh_dir(dir_name);
  const Shard shard = small_moe();
  const std::vector<const Pass*> passes = {find_pass("lower_attention"), &pass};
  PassContext context{{.routing = RoutingForm::iterate}, {}};
  auto result = run_pipeline(shard, passes, context, {.dump_dir = dir.string()});
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(has_code(result.error(), code)) << render(result.error());

  const fs::path file = dir / ("L00.moe." + std::string(pass.name) + ".repro.ir");
  const Diagnostic& note = result.error().back();
  EXPECT_EQ(note.code, "passes.reproducer");
  EXPECT_NE(note.cause.find(file.string()), std::string::npos) << note.cause;
  const std::string text = read_file(file);
  EXPECT_TRUE(text.starts_with("// run: " + std::string(pass.name) + " routing=iterate ")) << text;
  auto parsed = parse_shard(text);
  ASSERT_TRUE(parsed.has_value()) << render(parsed.error());
  EXPECT_EQ(*parsed, shard);
}

TEST(RunPipeline, SavesReproducersOfFailingPasses) {
  const Pass pass{"refusing", refusing, Form::model, Form::model, ""};
  expect_reproducer("refusing", pass, "test.refused");
}

TEST(RunPipeline, SavesReproducersOfInvalidResults) {
  const Pass pass{"breaking", breaking, Form::model, Form::model, ""};
  expect_reproducer("breaking", pass, "shard.s1");
}

TEST(RunPipeline, SavesReproducersOfUndeclaredForms) {
  const Pass pass{"lying", lying, Form::model, Form::lowered, ""};
  expect_reproducer("lying", pass, "passes.form");
}

// Changes the working directory and TMPDIR until the end of the scope.
class OtherFolders {
 public:
  OtherFolders(const fs::path& working, const fs::path& temporary) : before_(fs::current_path()) {
    fs::create_directories(working);
    fs::create_directories(temporary);
    if (const char* folder = std::getenv("TMPDIR")) temporary_before_ = folder;
    fs::current_path(working);
    setenv("TMPDIR", temporary.c_str(), 1);
  }
  ~OtherFolders() {
    fs::current_path(before_);
    if (temporary_before_)
      setenv("TMPDIR", temporary_before_->c_str(), 1);
    else
      unsetenv("TMPDIR");
  }
  OtherFolders(const OtherFolders&) = delete;
  OtherFolders& operator=(const OtherFolders&) = delete;

 private:
  fs::path before_;
  std::optional<std::string> temporary_before_;
};

Diagnostics refuse_without_dump_dir(const std::string& subfolder = {}) {
  const Pass pass{"refusing", refusing, Form::model, Form::model, ""};
  const std::vector<const Pass*> passes = {&pass};
  PassContext context;
  auto result = run_pipeline(small_moe(), passes, context, {.subfolder = subfolder});
  EXPECT_FALSE(result.has_value());
  return result ? Diagnostics{} : result.error();
}

TEST(RunPipeline, SavesReproducersInFreshTemporaryFolders) {
  const fs::path dir = fresh_dir("no_dump_dir");
  const OtherFolders folders(dir / "working", dir / "temporary");
  for (size_t failures : {size_t{1}, size_t{2}}) {
    const Diagnostics findings = refuse_without_dump_dir("ane");
    ASSERT_FALSE(findings.empty());
    const std::vector<std::string> made = files_in(dir / "temporary");
    ASSERT_EQ(made.size(), failures) << "each failure has a folder of its own";
    bool named = false;
    for (const std::string& folder : made) {
      const fs::path file = dir / "temporary" / folder / "L00.moe.refusing.repro.ir";
      EXPECT_TRUE(fs::exists(file)) << file;
      named |= findings.back().cause.find(file.string()) != std::string::npos;
    }
    EXPECT_TRUE(named) << findings.back().cause;
  }
  EXPECT_TRUE(files_in(dir / "working").empty());
}

TEST(RunPipeline, KeepsThePassError) {
  const fs::path dir = fresh_dir("no_temporary_folder");
  const OtherFolders folders(dir / "working", dir / "temporary");
  fs::remove_all(dir / "temporary");
  const Diagnostics findings = refuse_without_dump_dir();
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].code, "test.refused");
  EXPECT_EQ(findings[1].cause,
            "the input of refusing cannot be saved: cannot create a temporary folder");
  EXPECT_TRUE(files_in(dir / "working").empty());
}

Result<Shard> stopping(const Shard& shard, PassContext&) {
  Builder b(shard.name, shard.form);
  b.emit(Linear{}, {});  // an ill-typed op: a broken invariant of the pass
  return b.finish();
}

TEST(RunPipelineDeathTest, SavesReproducersOfFailedInvariants) {
  const fs::path dir = fresh_dir("stopping");
  const Pass pass{"stopping", stopping, Form::model, Form::model, ""};
  const std::vector<const Pass*> passes = {&pass};
  PassContext context;
  EXPECT_EXIT((void)run_pipeline(small_moe(), passes, context, {.dump_dir = dir.string()}),
              testing::ExitedWithCode(kInternalErrorExitCode), "L00.moe.stopping.repro.ir");
  EXPECT_TRUE(read_file(dir / "L00.moe.stopping.repro.ir").starts_with("// run: stopping "));
}

// ---- Options as text ---------------------------------------------------------------------------

TEST(PassOptionText, RoundTripsAllOptions) {
  PassOptions options{
      .routing = RoutingForm::topk,
      .experts = ExpertForm::bank,
      .attention = AttentionForm::per_head,
      .bank_channel_limit = 77,
      .weights = {FloatForm{}, {{"a.b", AffineForm{}}, {"seeded(7)", PaletteForm{}}}},
      .target = {.projection = ProjectionForm::matmul,
                 .sum = SumForm::tree,
                 .has_state = true,
                 .engine = {.expand_sigmoid = true,
                            .coded_matmul_rank = 3,
                            .matrix_rows = true,
                            .splits_zeros = true}}};
  const std::string text = to_string(options);
  PassOptions read_back;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    EXPECT_TRUE(set_pass_option(read_back, word).has_value()) << word;
  EXPECT_EQ(to_string(read_back), text);
  EXPECT_EQ(read_back.routing, RoutingForm::topk);
  EXPECT_EQ(read_back.bank_channel_limit, 77);
  EXPECT_EQ(read_back.weights, options.weights);
  EXPECT_TRUE(read_back.target.has_state);
  EXPECT_TRUE(read_back.target.engine.expand_sigmoid);
  EXPECT_EQ(read_back.target.engine.coded_matmul_rank, 3);
  EXPECT_TRUE(read_back.target.engine.matrix_rows);
  EXPECT_TRUE(read_back.target.engine.splits_zeros);
}

TEST(PassOptionText, RejectsUnknownNamesAndValues) {
  PassOptions options;
  for (const char* word : {"rooting=rank", "routing=best", "routing", "bank_channel_limit=0",
                           "bank_channel_limit=8x", "has_state=yes", "weights=int9", ""}) {
    const Status status = set_pass_option(options, word);
    ASSERT_FALSE(status.has_value()) << word;
    EXPECT_EQ(status.error()[0].code, "passes.option");
  }
  const Status near = set_pass_option(options, "rooting=rank");
  EXPECT_NE(near.error()[0].cause.find("did you mean 'routing'"), std::string::npos);
}

}  // namespace
}  // namespace moec
