#include "frontends/jobs/upcycle/fit_arch.h"

#include <fmt/format.h>

namespace moec {
namespace {

class Comparison {
 public:
  void same(bool equal, std::string what) {
    if (!equal) found_.push_back(std::move(what));
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void compare_attention(const AttentionConfig& dense, const AttentionConfig& moe,
                       Comparison& comparison) {
  comparison.same(dense.latent == moe.latent,
                  dense.latent ? "latent attention" : "attention without a latent");
  comparison.same(dense.qk_norm == moe.qk_norm,
                  fmt::format("norms of queries and keys ({})", enum_name(dense.qk_norm)));
  comparison.same(!dense.qkv_bias || moe.qkv_bias, "biases of q, k and v");
  comparison.same(!dense.o_bias || moe.o_bias, "a bias of o");
  comparison.same(dense.scale == moe.scale, "the scale of the attention scores");
  comparison.same(dense.rope == moe.rope,
                  fmt::format("the rotation ({}, scaling {})", enum_name(dense.rope.style),
                              enum_name(dense.rope.scaling)));
  AttentionConfig rest = moe;
  rest.latent = dense.latent;
  rest.qk_norm = dense.qk_norm;
  rest.qkv_bias = dense.qkv_bias;
  rest.o_bias = dense.o_bias;
  rest.scale = dense.scale;
  rest.rope = dense.rope;
  comparison.same(rest == dense, "the heads of attention or what follows them");
}

void compare_layers(const ModelConfig& dense, const ModelConfig& moe, Comparison& comparison) {
  if (dense.layers.size() != moe.layers.size()) return comparison.same(false, "its layers");
  for (size_t i = 0; i < dense.layers.size(); ++i) {
    const LayerConfig &before = dense.layers[i], &after = moe.layers[i];
    if (before.window != after.window)
      return comparison.same(false, fmt::format("the sliding window of layer {}", i));
    LayerConfig rest = after;
    rest.moe = before.moe;
    if (rest != before) return comparison.same(false, fmt::format("the kind of layer {}", i));
  }
}

}  // namespace

std::vector<std::string> misfits(const ModelConfig& dense, const ModelConfig& moe) {
  Comparison comparison;
  comparison.same(dense.hidden == moe.hidden && dense.vocab == moe.vocab &&
                      dense.max_positions == moe.max_positions,
                  "its sizes");
  comparison.same(dense.norm == moe.norm, "its norms");
  comparison.same(dense.stream == moe.stream, "the factors or norms of the residual stream");
  comparison.same(dense.mlp.gating == moe.mlp.gating,
                  fmt::format("the activation {}", enum_name(dense.mlp.gating.activation)));
  comparison.same(!dense.mlp.bias, "biases of the feed-forward parts");
  comparison.same(dense.head == moe.head, "its head");
  comparison.same(dense.more_attention == moe.more_attention && dense.recurrent == moe.recurrent,
                  "further kinds of attention or mixers");
  compare_attention(dense.attention, moe.attention, comparison);
  compare_layers(dense, moe, comparison);
  return comparison.take();
}

}  // namespace moec
