// Forms of tensors in GGUF files.
#include "frontends/sources/gguf/tensor_forms.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

ModelConfig delta_model() {
  ModelConfig model;
  model.layers.resize(1);
  model.attention.heads = 3;
  model.attention.kv_heads = 1;
  model.recurrent = RecurrentConfig{
      .taps = 4, .channels = 20, .key_heads = 2, .value_heads = 6, .key_dim = 2, .value_dim = 2};
  return model;
}

std::string formed(const GgufForms& forms, std::string_view role, const Dims& dims, bool to_file) {
  const ModelConfig model = delta_model();
  const FormedTensor tensor{model, role, 0, dims};
  const WeightView view = tensor_view("w", {DType::f32, dims});
  const WeightView made =
      to_file ? to_gguf_form(forms, tensor, view) : from_gguf_form(forms, tensor, view);
  EXPECT_TRUE(view_type(made)) << to_string(made);
  return to_string(made);
}

TEST(GgufForms, KeepsTensorsWithoutAForm) {
  EXPECT_EQ(formed({}, "mixer_qkv", {20, 8}, true), "@w:f32[20,8]");
  EXPECT_EQ(formed({.rows = GgufRows::pairs}, "v", {4, 8}, false), "@w:f32[4,8]");
}

TEST(GgufForms, PairsRowsOfRotatedHeads) {
  const GgufForms forms{.rows = GgufRows::pairs};
  EXPECT_EQ(formed(forms, "q", {12, 8}, true),
            "@w:f32[12,8] | reshape(3, 2, 2, 8) | permute(0, 2, 1, 3) | reshape(12, 8)");
  EXPECT_EQ(formed(forms, "k_bias", {4}, false),
            "@w:f32[4] | reshape(1, 2, 2) | permute(0, 2, 1) | reshape(4)");
  EXPECT_EQ(formed(forms, "q", {9, 8}, true), "@w:f32[9,8]");
}

TEST(GgufForms, TilesValueHeads) {
  const GgufForms forms{.value_heads = GgufHeads::tiled};
  EXPECT_EQ(formed(forms, "mixer_a", {6, 8}, true),
            "@w:f32[6,8] | reshape(2, 3, 1, 8) | permute(1, 0, 2, 3) | reshape(6, 8)");
  EXPECT_EQ(formed(forms, "mixer_out", {8, 12}, false),
            "@w:f32[8,12] | reshape(8, 3, 2, 2) | permute(0, 2, 1, 3) | reshape(8, 12)");
  EXPECT_EQ(formed(forms, "mixer_conv", {20, 1, 4}, true),
            "concat(0; @w:f32[20,1,4] | slice(0, 0, 8), @w:f32[20,1,4] | slice(0, 8, 12) | "
            "reshape(2, 3, 2, 1, 4) | permute(1, 0, 2, 3, 4) | reshape(12, 1, 4))");
}

TEST(GgufForms, AppliesFunctionsAndShapes) {
  GgufForms forms;
  forms.roles["mixer_decay"] = {MapFn::neg_exp, {"-1", "1"}};
  forms.roles["mixer_norm"] = {std::nullopt, {"mixer_key_heads", "-1"}};
  EXPECT_EQ(formed(forms, "mixer_decay", {6}, true), "@w:f32[6] | map(neg_exp) | reshape(6, 1)");
  EXPECT_EQ(formed(forms, "mixer_decay", {6}, false), "@w:f32[6] | map(log_neg)");
  EXPECT_EQ(formed(forms, "mixer_norm", {12}, true), "@w:f32[12] | reshape(2, 6)");
}

}  // namespace
}  // namespace moec
