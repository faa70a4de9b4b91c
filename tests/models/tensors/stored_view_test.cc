// Tests the views that decode quantized tensors.
#include "models/tensors/stored_view.h"

#include "models/plan/plan_model.h"
#include "models/shards/check_model.h"
#include "models/shards/needed_tensors.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"

namespace moec {
namespace {

const StoredWeights kBlocks{WeightCoding::fp8_blocks, {3, 2}};
const StoredWeights kMxfp4{WeightCoding::mxfp4, {}};

WeightTable table_with(DType dtype) {
  WeightTable table;
  table.files.push_back({});
  table.tensors["w"] = {0, 0, {dtype, {7, 4}}};
  table.tensors["w_scale_inv"] = {0, 28, {DType::f32, {3, 2}}};
  return table;
}

// Five experts with 6 outputs and 64 inputs.
WeightTable microscaled_table() {
  WeightTable table;
  table.files.push_back({});
  table.tensors["w_blocks"] = {0, 0, {DType::u8, {5, 6, 2, 16}}};
  table.tensors["w_scales"] = {0, 960, {DType::u8, {5, 6, 2}}};
  return table;
}

TEST(StoredView, DecodesFp8Blocks) {
  EXPECT_EQ(to_string(stored_view(table_with(DType::f8_e4m3), kBlocks, "w")),
            "@w:f8_e4m3[7,4] | dequant(3, 2; @w_scale_inv:f32[3,2])");
}

TEST(StoredView, DecodesMxfp4InTheNeededShape) {
  const WeightView view = stored_view(microscaled_table(), kMxfp4, "w");
  EXPECT_EQ(to_string(view),
            "@w_blocks:u8[5,6,2,16] | reshape(5, 6, 32) | unpack(f4_e2m1) | dequant(1, 1, 32; "
            "@w_scales:u8[5,6,2] | unpack(f8_e8m0)) | permute(0, 2, 1)");
  EXPECT_EQ(view_type(view), (Type{DType::f32, {5, 64, 6}}));
}

// Four outputs and 48 inputs in groups of 32, with a partial last group.
const StoredWeights kInt4{WeightCoding::int_groups, {1, 32}};

WeightTable int4_table() {
  WeightTable table;
  table.files.push_back({});
  table.tensors["w_packed"] = {0, 0, {DType::i32, {4, 6}}};
  table.tensors["w_scale"] = {0, 96, {DType::bf16, {4, 2}}};
  return table;
}

TEST(StoredView, DecodesInt4Groups) {
  EXPECT_EQ(to_string(stored_view(int4_table(), kInt4, "w")),
            "@w_packed:i32[4,6] | unpack(i4_excess8) | dequant(1, 32; @w_scale:bf16[4,2])");
  EXPECT_EQ(to_string(stored_view(table_with(DType::bf16), kInt4, "w")), "@w:bf16[7,4]");
}

TEST(StoredTensors, ListInt4IntegersAndFactors) {
  EXPECT_EQ(stored_tensors(int4_table(), kInt4, {"expert_up", "w", {4, 48}}),
            (std::vector<StoredTensor>{{{"expert_up integers", "w_packed", {4, 6}}, DType::i32},
                                       {{"expert_up factors", "w_scale", {4, 2}}}}));
  const NeededTensor odd{"expert_up", "w", {4, 47}};
  EXPECT_EQ(stored_tensors(int4_table(), kInt4, odd), (std::vector<StoredTensor>{{odd}}));
}

TEST(StoredView, UsesTheViewsOfDerivedTensors) {
  WeightTable table = table_with(DType::bf16);
  const WeightView w = tensor_view("w", {DType::bf16, {7, 4}});
  table.derived["both"] = concat_view(0, {w, w});
  table.derived["w"] = then(w, PermuteStep{{1, 0}});
  const StoredWeights plain;
  EXPECT_EQ(stored_view(table, plain, "both"), table.derived["both"]);
  EXPECT_EQ(to_string(stored_view(table, plain, "w")), "@w:bf16[7,4] | permute(1, 0)");
  EXPECT_EQ(stored_tensors(table, plain, {"gate", "both", {14, 4}}),
            (std::vector<StoredTensor>{{{"gate", "w", {7, 4}}, DType::bf16}}));
}

TEST(StoredView, KeepsUncodedTensors) {
  EXPECT_EQ(to_string(stored_view(table_with(DType::bf16), kBlocks, "w")), "@w:bf16[7,4]");
  EXPECT_EQ(to_string(stored_view(table_with(DType::bf16), kMxfp4, "w")), "@w:bf16[7,4]");
}

TEST(StoredTensors, ListTheFp8MatrixAndFactors) {
  const NeededTensor matrix{"q", "w", {7, 4}};
  EXPECT_EQ(stored_tensors(table_with(DType::f8_e4m3), kBlocks, matrix),
            (std::vector<StoredTensor>{{matrix, DType::f8_e4m3},
                                       {{"q factors", "w_scale_inv", {3, 2}}}}));
}

TEST(StoredTensors, ListMxfp4BlocksAndScales) {
  const NeededTensor experts{"experts_down_in_out", "w", {5, 64, 6}};
  const std::vector<StoredTensor> parts = {
      {{"experts_down_in_out blocks", "w_blocks", {5, 6, 2, 16}}, DType::u8},
      {{"experts_down_in_out scales", "w_scales", {5, 6, 2}}, DType::u8}};
  WeightTable table = microscaled_table();
  EXPECT_EQ(stored_tensors(table, kMxfp4, experts), parts);
  table.tensors.erase("w_blocks");
  // so that a checker reports the missing one
  EXPECT_EQ(stored_tensors(table, kMxfp4, experts), parts);
}

TEST(StoredTensors, ListOnePartForOtherTensors) {
  const NeededTensor matrix{"q", "w", {7, 4}}, experts{"experts_down", "w", {5, 64, 6}};
  const std::vector<StoredTensor> alone = {{matrix}};
  EXPECT_EQ(stored_tensors(table_with(DType::bf16), kBlocks, matrix), alone);
  EXPECT_EQ(stored_tensors(table_with(DType::f8_e4m3), {}, matrix), alone);
  EXPECT_EQ(stored_tensors(table_with(DType::bf16), kMxfp4, matrix), alone);
  EXPECT_EQ(stored_tensors(microscaled_table(), {}, matrix), alone);
  // Only transposed tensors define the axis that is cut into blocks.
  EXPECT_EQ(stored_tensors(microscaled_table(), kMxfp4, experts),
            (std::vector<StoredTensor>{{experts}}));
}

TEST(StoredNames, ListAllPossibleNames) {
  EXPECT_EQ(stored_names(kBlocks, "w"), (std::vector<std::string>{"w"}));
  EXPECT_EQ(stored_names(kMxfp4, "w"), (std::vector<std::string>{"w", "w_blocks", "w_scales"}));
}

TEST(PlanModel, RejectsMissingFp8Factors) {
  ModelConfig model = sample_model();
  model.stored = kBlocks;
  WeightTable weights = declared_weights(model, DType::bf16);
  weights.tensors.at("0.q").type.dtype = DType::f8_e4m3;
  expect_error(plan_model(model, weights, sample_options()), "plan.missing_tensor",
               "the tensor \"0.q_scale_inv\" (q factors) is missing");
  weights.tensors["0.q_scale_inv"] = {0, 0, {DType::f32, {4, 8}}};
  expect_error(plan_model(model, weights, sample_options()), "plan.tensor_shape", "expected [8,4]");
  weights.tensors["0.q_scale_inv"].type.dims = {8, 4};
  EXPECT_TRUE(plan_model(model, weights, sample_options()).has_value());
}

TEST(CheckModel, RequiresWholeMxfp4BlocksPerRow) {
  ModelConfig model = sample_model();
  model.stored = kMxfp4;
  const Diagnostics findings = check_model(model);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].code, "model.storage");
  EXPECT_EQ(findings[0].cause,
            "rows have 8 elements, must be a multiple of 32, the block of mxfp4");
  model.hidden = model.moe.expert_ff = 64;
  EXPECT_TRUE(check_model(model).empty());
}

}  // namespace
}  // namespace moec
