#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/experts/expert_runs.h"
#include "ir/graph/builder.h"
#include "ir/model/plan.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// One layer with four experts: router, experts 0-1, experts 2-3; then the head.
struct Sample {
  Plan plan;
  std::vector<ShardInterface> interfaces;

  Sample() {
    const Type rows{DType::f32, {1, 8}, Layout::rows};
    const Type routing{DType::f32, {1, 4}, Layout::rows};
    const Type logits{DType::f32, {1, 16}, Layout::rows};
    plan.model.layers = {{.moe = true}};
    plan.model.moe.experts = 4;
    plan.build.layout = Layout::rows;
    plan.embedding = tensor_view("embed", {DType::f32, {16, 8}});
    add({.name = "router", .kind = ShardKind::router, .layer = 0},
        {{{"x", rows}}, {{"r", routing}}}, {{"x", SourceKind::edge, "embed"}},
        {{"r", SinkKind::edge, "r0"}});
    for (int64_t group : {0, 1})
      add({.name = group ? "g1" : "g0",
           .kind = ShardKind::experts,
           .layer = 0,
           .first_expert = group * 2,
           .experts = 2},
          {{{"x", rows}, {"r", routing}}, {{"y", rows}}},
          {{"x", SourceKind::edge, group ? "h1" : "embed"}, {"r", SourceKind::edge, "r0"}},
          {{"y", SinkKind::edge, group ? "h2" : "h1"}});
    add({.name = "head", .kind = ShardKind::lm_head, .vocab_size = 16},
        {{{"x", rows}}, {{"logits", logits}}, {}, {"head.weight"}}, {{"x", SourceKind::edge, "h2"}},
        {{"logits", SinkKind::logits}});
    for (const char* tensor : {"embed", "head.weight", "rotary.inv_freq"})
      plan.weights.tensors[tensor] = {0, 0, {DType::f32, {16, 8}}};
    plan.ignored = {{"rotary.inv_freq", "computed"}};
  }

  void add(ShardDecl shard, ShardInterface interface, std::vector<InputBinding> inputs,
           std::vector<OutputBinding> outputs) {
    plan.schedule.push_back(
        {static_cast<uint32_t>(plan.shards.size()), std::move(inputs), std::move(outputs), "", ""});
    plan.shards.push_back(std::move(shard));
    interfaces.push_back(std::move(interface));
  }

  // Formats each finding as "code shard port: cause".
  std::vector<std::string> found() const {
    std::vector<std::string> all;
    for (const Diagnostic& finding : verify_plan(plan, interfaces))
      all.push_back(finding.code + " " + finding.place.shard + " " + finding.place.op +
                    finding.place.tensor + ": " + finding.cause);
    return all;
  }
};

TEST(VerifyPlan, AcceptsAValidPlan) { EXPECT_THAT(Sample().found(), IsEmpty()); }

TEST(VerifyPlan, P1RejectsUnmatchedStepsAndShards) {
  Sample sample;
  sample.plan.schedule.back().shard = 9;
  EXPECT_THAT(sample.found(),
              ElementsAre("plan.p1  : step 3 names shard 9, but only 4 are declared",
                          "plan.p1 head : no step runs this shard"));
}

TEST(VerifyPlan, P1RejectsPortsNotConnectedOnce) {
  Sample sample;
  Step& head = sample.plan.schedule.back();
  head.inputs.push_back(head.inputs[0]);
  head.outputs[0].port = "logit";
  EXPECT_THAT(sample.found(),
              ElementsAre("plan.p1 head x: the input is connected 2 times, expected once",
                          "plan.p1 head logit: the shard has no output with this name",
                          "plan.p1 head logits: the output is connected 0 times, expected once"));
}

TEST(VerifyPlan, P1RejectsSkipsWithUnequalTypes) {
  Sample sample;
  Step& group = sample.plan.schedule[1];
  group.skip_from = "x";
  group.skip_to = "y";
  EXPECT_THAT(sample.found(), IsEmpty());
  group.skip_from = "r";
  EXPECT_THAT(sample.found(), ElementsAre("plan.p1 g0 : skipping needs an input and an output of "
                                          "one type, got 'r' and 'y'"));
}

TEST(VerifyPlan, P2RejectsConsumersBeforeProducers) {
  Sample sample;
  std::swap(sample.plan.schedule[0], sample.plan.schedule[1]);
  EXPECT_THAT(sample.found(), ElementsAre("plan.p2 g0 r: no earlier step produces edge 'r0'"));
}

TEST(VerifyPlan, P2RejectsEdgesWithTwoProducers) {
  Sample sample;
  sample.plan.schedule[2].outputs[0].edge = "h1";
  EXPECT_THAT(sample.found(), ElementsAre("plan.p2 g1 y: edge 'h1' is produced twice",
                                          "plan.p2 head x: no earlier step produces edge 'h2'"));
}

TEST(VerifyPlan, P2RejectsEdgesWithUnequalTypes) {
  Sample sample;
  sample.interfaces[1].inputs[1].type.dims = {1, 3};
  EXPECT_THAT(sample.found(),
              ElementsAre("plan.p2 g0 r: edge 'r0' has type f32[1,4]{rows} at its producer and "
                          "f32[1,3]{rows} here"));
}

TEST(VerifyPlan, P2RejectsWrongEmbeddingRows) {
  Sample sample;
  sample.plan.embedding = tensor_view("embed", {DType::f32, {16, 9}});
  EXPECT_THAT(
      sample.found(),
      ElementsAre(
          "plan.p2 router x: the rows of the embedding table are not of type f32[1,8]{rows}"));
}

TEST(VerifyPlan, P3RejectsGapsAndOverlaps) {
  Sample gap, overlap, missing, dense;
  gap.plan.shards[1].experts = 1;
  EXPECT_THAT(
      gap.found(),
      ElementsAre("plan.p3 g1 : layer 0: got 2 experts starting at 2, expected expert 1 next"));
  overlap.plan.shards[2].first_expert = 1;
  EXPECT_THAT(
      overlap.found(),
      ElementsAre("plan.p3 g1 : layer 0: got 2 experts starting at 1, expected expert 2 next",
                  "plan.p3  : layer 0: the shards contain experts up to 3, the model has 4"));
  Sample sets, twice;
  set_experts(sets.plan.shards[1], {0, 3});
  set_experts(sets.plan.shards[2], {1, 2});
  EXPECT_THAT(sets.found(), IsEmpty());
  set_experts(twice.plan.shards[1], {0, 3});
  EXPECT_THAT(
      twice.found(),
      ElementsAre("plan.p3 g1 : layer 0: got 2 experts starting at 2, expected expert 1 next",
                  "plan.p3 g0 : layer 0: got 1 experts starting at 3, expected expert 4 next"));
  missing.plan.model.moe.experts = 6;
  EXPECT_THAT(
      missing.found(),
      ElementsAre("plan.p3  : layer 0: the shards contain experts up to 4, the model has 6"));
  dense.plan.model.layers[0].moe = false;
  EXPECT_THAT(dense.found(), ElementsAre("plan.p3 g0 : layer 0 has no experts",
                                         "plan.p3 g1 : layer 0 has no experts"));
}

TEST(VerifyPlan, P3RejectsSlicesNotUsedOnce) {
  Sample missing, twice;
  missing.plan.shards[2].slices = 2;
  EXPECT_THAT(missing.found(), ElementsAre("plan.p3 g1 : got slice 0 of 2, expected slice 0 of 1"));
  twice.plan.shards[1].slices = 2;
  twice.plan.shards[2] = twice.plan.shards[1];
  twice.plan.shards[2].name = "g1";
  EXPECT_THAT(twice.found(),
              testing::Contains("plan.p3 g1 : got slice 0 of 2, expected slice 1 of 2"));
}

TEST(VerifyPlan, P4RejectsUnaccountedWeights) {
  Sample sample;
  sample.plan.ignored = {{"embed", "odd"}};
  sample.interfaces[0].tensors = {"gone"};
  EXPECT_THAT(sample.found(),
              ElementsAre("plan.p4 router gone: the checkpoint has no such tensor",
                          "plan.p4 embed embed: the tensor is used but listed as ignored",
                          "plan.p4  rotary.inv_freq: the tensor is neither used nor listed as "
                          "ignored"));
}

TEST(VerifyPlan, P4SkipsPlansWithoutWeights) {
  Sample sample;
  sample.plan.weights = {};
  sample.plan.ignored.clear();
  EXPECT_THAT(sample.found(), IsEmpty());
}

TEST(InterfaceOf, ListsPortsStatesAndTensors) {
  Builder b("a", Form::static_ops);
  const Type type{DType::f32, {2}};
  ValueId x = b.input("x", type);
  b.state("s", type);
  ValueId w = b.weight(
      concat_view(0, {tensor_view("t2", {DType::f32, {1}}), tensor_view("t1", {DType::f32, {1}})}));
  ValueId sum = b.add(b.add(x, w), b.weight(tensor_view("t2", type)));
  b.output("y", sum);
  ShardInterface interface = interface_of(b.finish());
  EXPECT_THAT(interface.inputs, ElementsAre(ShardInterface::Port{"x", type}));
  EXPECT_THAT(interface.outputs, ElementsAre(ShardInterface::Port{"y", type}));
  EXPECT_THAT(interface.states, ElementsAre(State{"s", type}));
  EXPECT_THAT(interface.tensors, ElementsAre("t1", "t2"));
}

TEST(TensorNames, FillsLayerAndExpert) {
  TensorNames names;
  names.by_role["expert_up"] = "layers.{i}.experts.{e}.{i}.up";
  names.by_role["embed"] = "embed";
  EXPECT_EQ(names("expert_up", 3, 12), "layers.3.experts.12.3.up");
  EXPECT_EQ(names("embed"), "embed");
  EXPECT_TRUE(names.has("embed"));
  EXPECT_FALSE(names.has("router"));
}

}  // namespace
}  // namespace moec
