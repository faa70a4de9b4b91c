// Several layers per shard (--layers-per-shard): the exports validate, `moec check` finds experts
// that are lost or moved between the layers of a shard, and unsupported combinations are rejected.
#include <gmock/gmock.h>

#include "tests/frontends/jobs/check/edited_export.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Exported {
  const char* golden_case;
  Words flags;
  size_t shards;  // that contain whole layers
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Exported& given, std::ostream* out) { *out << given.golden_case; }

class WholeLayers : public testing::TestWithParam<Exported> {};

TEST_P(WholeLayers, PassCheckAndValidate) {
  const std::string out = fresh_folder("whole_layers");
  Words flags = GetParam().flags;
  flags.insert(flags.end(), {"--tokens", "1,16"});
  expect_fine(export_case(GetParam().golden_case, out, flags));
  const Manifest manifest = read_manifest(out).value();
  size_t whole = 0;
  for (const manifest::Shard& shard : manifest.shards) {
    EXPECT_TRUE(shard.kind == ShardKind::layers || shard.kind == ShardKind::lm_head) << shard.name;
    whole += shard.kind == ShardKind::layers;
    EXPECT_TRUE(shard.states.empty());
  }
  EXPECT_EQ(whole, GetParam().shards);
  expect_fine(run_command({"check", out}));
  expect_fine(validate_case(GetParam().golden_case, out));
}

const Words kOneShard = {"--layers-per-shard", "fit", "--max-shard-mb", "none"};
const Words kOneCoremlShard = {"--layers-per-shard", "fit", "--max-shard-mb", "none",
                               "--target",           "ane", "--kv",           "io"};

// mixtral_a has a sliding window, glm4_moe_a a dense layer and a correction bias.
INSTANTIATE_TEST_SUITE_P(All, WholeLayers,
                         testing::Values(Exported{"mixtral_a", {"--layers-per-shard", "1"}, 2},
                                         Exported{"mixtral_b", kOneShard, 1},
                                         Exported{"mixtral_b", kOneCoremlShard, 1},
                                         Exported{"mixtral_a", kOneCoremlShard, 1},
                                         Exported{"glm4_moe_a", {"--layers-per-shard", "2"}, 2},
                                         Exported{"glm4_moe_a", kOneCoremlShard, 1}));

// ---- Experts of the layers of one shard --------------------------------------------------------

struct Edit {
  const char* name;
  void (*apply)(Shard&);
  std::vector<std::string> message;  // empty if accepted
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Edit& edit, std::ostream* out) { *out << edit.name; }

// Replaces the weights of expert `place` of layer `to` with those of expert `name` of layer `from`.
void copy_expert(Shard& to, const std::string& place, const Shard& from, const std::string& name) {
  for (const char* part : {"gate", "up", "down"}) {
    const std::string weight = std::string(".") + part + ".weight";
    view_named(to, place + weight) =
        std::get<Weight>(from.ops[weight_named(from, name + weight)].data).view;
  }
}

// Removes the expert's term from the sum, which then adds the previous term twice.
void drop_term(Shard& shard, const std::string& expert) {
  const ValueId down = shard.ops[weight_named(shard, expert + ".down.weight")].results[0];
  for (OpId id : op_ids(shard))
    if (Op& op = shard.ops[id]; mnemonic(op.data) == "add")
      if (shard.producer_as<Conv>(op.operands[1]))
        if (shard.ops[shard.values[op.operands[1]].producer].operands[1] == down)
          op.operands[1] = op.operands[0];
}

std::vector<Edit> edits() {
  return {
      {"swapped_between_layers",
       [](Shard& s) {
         const Shard before = s;
         copy_expert(s, "L00.experts.1", before, "L01.experts.2");
         copy_expert(s, "L01.experts.2", before, "L00.experts.1");
       },
       {"error[coverage.foreign_expert]", "shard L00.layers",
        "layer 0: the weights of expert 2 of layer 1 replace those of expert 1",
        "layer 1: the weights of expert 1 of layer 0 replace those of expert 2"}},
      {"swapped_in_the_second_layer",
       [](Shard& s) {
         const Shard before = s;
         copy_expert(s, "L01.experts.0", before, "L01.experts.2");
         copy_expert(s, "L01.experts.2", before, "L01.experts.0");
       },
       {"error[coverage.swapped_experts]", "layer 1: experts 0 and 2 are exchanged"}},
      {"doubled",
       [](Shard& s) { copy_expert(s, "L01.experts.3", Shard(s), "L01.experts.1"); },
       {"error[coverage.duplicate_expert]",
        "layer 1: the weights of expert 1 replace those of expert 3"}},
      {"truncated",
       [](Shard& s) { cut_short(s, "L00.experts.3.down.weight"); },
       {"error[coverage.truncated_expert]",
        "layer 0: expert 3: L00.experts.3.down.weight ends in"}},
      {"lost_in_the_first_layer",
       [](Shard& s) { drop_term(s, "L00.experts.4"); },
       {"error[coverage.missing_expert]", "layer 0: expert 4 has 0 of its 3 weights",
        "error[coverage.changed_graph]"}},
      {"lost_in_the_second_layer",
       [](Shard& s) { drop_term(s, "L01.experts.4"); },
       {"error[coverage.missing_expert]", "layer 1: expert 4 has 0 of its 3 weights",
        "error[coverage.changed_graph]"}},
      {"router_rows_swapped",
       [](Shard& s) {
         reorder(s, order_with(5, {{0, 1}, {1, 0}}), false, true, {2, 1});
       },
       {"error[coverage.swapped_experts]", "layer 1: experts 0 and 1 are exchanged"}},
      {"norm_scaled",
       [](Shard& s) {
         WeightView& view = view_named(s, "L01.attn_norm.weight");
         view = then(view, ScaleStep{2});
       },
       {"error[coverage.changed_weight]", "L01.attn_norm.weight differs from the exported one"}},
      {"experts_permuted_with_router_rows",
       [](Shard& s) {
         reorder(s, order_with(5, {{0, 1}, {1, 0}}), true, true, {2, 1});
       },
       {}},
  };
}

class EditedLayers : public testing::TestWithParam<Edit> {
 protected:
  static void expect_message(Words flags) {
    const EditedExport edited("mixtral_a", std::move(flags));
    edited.edit_experts(GetParam().apply);
    const Outcome outcome = edited.check();
    if (GetParam().message.empty()) return expect_fine(outcome);
    EXPECT_EQ(outcome.exit_code, kExitFellShort) << outcome.out << outcome.err;
    for (const std::string& part : GetParam().message) EXPECT_THAT(outcome.out, HasSubstr(part));
  }
};

TEST_P(EditedLayers, AreFoundInOnnx) { expect_message({"--layers-per-shard", "2"}); }
TEST_P(EditedLayers, AreFoundInCoreml) {
  expect_message({"--layers-per-shard", "2", "--target", "ane", "--kv", "io"});
}

INSTANTIATE_TEST_SUITE_P(All, EditedLayers, testing::ValuesIn(edits()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Plans and refusals ------------------------------------------------------------------------

json plan_json(Words words) {
  words.insert(words.begin(), "plan");
  words.emplace_back("--json");
  return json::parse(run_command(words).out);
}

TEST(PlanOfWholeLayers, FitsTheBudgetOfTheTarget) {
  // Granite 3.0 1B-A400M has 24 layers of about 53 million weights each.
  const Words granite = {"granite-3.0-1b-a400m", "--target", "ane",       "--kv", "io",
                         "--layers-per-shard",   "fit",      "--weights", "int8"};
  const json report = plan_json(granite);
  EXPECT_EQ(report["layers_per_shard"], 3);
  EXPECT_EQ(report["shards"][1]["kind"], "layers");
  EXPECT_EQ(report["shards"][1]["shards"], 8);
  EXPECT_LE(report["shards"][1]["largest_bytes"], 200'000'000);
  EXPECT_EQ(report["shards"][1]["budget_bytes"], 200'000'000);
  const json apart = plan_json({"granite-3.0-1b-a400m", "--target", "ane", "--kv", "io"});
  const int64_t scales = int64_t{24} * 32 * 2 * (512 + 512 + 1024);
  EXPECT_EQ((report["memory"]["expert_bytes"].get<int64_t>() - scales) * 2,
            apart["memory"]["expert_bytes"]);
  EXPECT_EQ(report["token"]["ideal_sparse"]["macs"], apart["token"]["ideal_sparse"]["macs"]);
  EXPECT_EQ(report["memory"]["kv_cache_bytes"], apart["memory"]["kv_cache_bytes"]);
}

TEST(PlanOfWholeLayers, SplitsLayersAboveTheBudget) {
  const json report = plan_json({"olmoe-1b-7b", "--target", "ane", "--layers-per-shard", "fit"});
  EXPECT_EQ(report["layers_per_shard"], 0);
  EXPECT_EQ(report["cuts"][0]["kind"], "layers");
  EXPECT_THAT(report["cuts"][0]["reason"].get<std::string>(), HasSubstr("is above the budget"));
}

TEST(PlanOfWholeLayers, PrintsTheGroupsOfLayers) {
  const Outcome outcome = run_command({"plan", "granite-3.0-1b-a400m", "--layers-per-shard", "5"});
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      HasSubstr("whole layers per shard: 4 x 5 + 1 x 4: 5 layers per shard were requested"));
}

struct Refused {
  const char* name;
  Words flags;
  Words message;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class RefusedLayers : public testing::TestWithParam<Refused> {};

TEST_P(RefusedLayers, NameTheFlagToChange) {
  const std::string out = fresh_folder("refused");
  const Outcome outcome = export_case("mixtral_a", out, GetParam().flags);
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
  for (const std::string& part : GetParam().message) EXPECT_THAT(outcome.err, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedLayers,
    testing::Values(
        Refused{"states",
                {"--layers-per-shard", "2", "--target", "ane"},
                {"error[plan.options]", "--kv io"}},
        Refused{"host_routing",
                {"--layers-per-shard", "2", "--routing", "host"},
                {"error[plan.options]", "--routing host"}},
        Refused{"groups",
                {"--layers-per-shard", "2", "--experts-per-shard", "2"},
                {"error[plan.options]", "--experts-per-shard"}},
        Refused{
            "ane_book",
            {"--layers-per-shard", "2", "--target", "ane", "--kv", "io", "--compat", "ane-book"},
            {"error[compat.ane_book]", "whole layers", "--layers-per-shard"}},
        Refused{"none", {"--layers-per-shard", "0"}, {"error[plan.layers_per_shard]", "fit"}},
        Refused{"words", {"--layers-per-shard", "all"}, {"error[plan.layers_per_shard]", "fit"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
