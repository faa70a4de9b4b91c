// Tensors stored as FP8 with block factors, as views that decode them.
#include "models/stored_view.h"

#include "models/plan_model.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"

namespace moec {
namespace {

const StoredWeights kBlocks{WeightCoding::fp8_blocks, {3, 2}};

WeightTable table_with(DType dtype) {
  WeightTable table;
  table.files.push_back({});
  table.tensors["w"] = {0, 0, {dtype, {7, 4}}};
  table.tensors["w_scale_inv"] = {0, 28, {DType::f32, {3, 2}}};
  return table;
}

TEST(StoredView, DecodesFp8ByItsBlocks) {
  EXPECT_EQ(to_string(stored_view(table_with(DType::f8_e4m3), kBlocks, "w")),
            "@w:f8_e4m3[7,4] | dequant(3, 2; @w_scale_inv:f32[3,2])");
}

TEST(StoredView, OtherTypesAreAsTheyStand) {
  EXPECT_EQ(to_string(stored_view(table_with(DType::bf16), kBlocks, "w")), "@w:bf16[7,4]");
}

TEST(NeededFactors, OfMatricesInFp8Alone) {
  const NeededTensor matrix{"q", "w", {7, 4}};
  const auto factors = needed_factors(table_with(DType::f8_e4m3), kBlocks, matrix);
  ASSERT_TRUE(factors.has_value());
  EXPECT_EQ(factors->role, "q factors");
  EXPECT_EQ(factors->name, "w_scale_inv");
  EXPECT_EQ(factors->dims, (Dims{3, 2}));
  EXPECT_FALSE(needed_factors(table_with(DType::bf16), kBlocks, matrix));
  EXPECT_FALSE(needed_factors(table_with(DType::f8_e4m3), {}, matrix));
  EXPECT_FALSE(needed_factors(table_with(DType::f8_e4m3), kBlocks, {"q", "absent", {7, 4}}));
}

TEST(PlanModel, FactorsOfFp8MustBeThere) {
  ModelConfig model = sample_model();
  model.stored = kBlocks;
  WeightTable weights = declared_weights(model, DType::bf16);
  weights.tensors.at("0.q").type.dtype = DType::f8_e4m3;
  expect_error(plan_model(model, weights, sample_options()), "plan.missing_tensor",
               "there is no tensor \"0.q_scale_inv\" (q factors)");
  weights.tensors["0.q_scale_inv"] = {0, 0, {DType::f32, {4, 8}}};
  expect_error(plan_model(model, weights, sample_options()), "plan.tensor_shape", "expected [8,4]");
  weights.tensors["0.q_scale_inv"].type.dims = {8, 4};
  EXPECT_TRUE(plan_model(model, weights, sample_options()).has_value());
}

}  // namespace
}  // namespace moec
