// The tensors of a model as views of the tensors in a GGUF file.
#include <gmock/gmock.h>

#include "frontends/sources/gguf/open_gguf.h"
#include "tests/frontends/sources/gguf/gguf_bytes.h"

namespace moec {
namespace {

using testing::HasSubstr;

// A model of one layer: hidden size 32, two query heads of size 16, one key head, three experts of
// width 32. Tensors are contiguous.
class SmallGguf {
 public:
  explicit SmallGguf(const std::string& arch = "llama") : arch_(arch) {
    bytes_.text("general.architecture", arch);
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, uint32_t>>{{"block_count", 1},
                                                       {"context_length", 64},
                                                       {"embedding_length", 32},
                                                       {"attention.head_count", 2},
                                                       {"attention.head_count_kv", 1},
                                                       {"attention.key_length", 16},
                                                       {"feed_forward_length", 32},
                                                       {"expert_count", 3},
                                                       {"expert_used_count", 2},
                                                       {"vocab_size", 5}})
      bytes_.u32(arch + "." + key, value);
    bytes_.raw_key(arch + ".attention.layer_norm_rms_epsilon", GgufType::f32, number_bytes(1e-5F));
    add("token_embd.weight", {32, 5}).add("output_norm.weight", {32});
    layer("attn_norm", {32}).layer("ffn_norm", {32}).layer("attn_q", {32, 32});
    layer("attn_k", {32, 16}).layer("attn_v", {32, 16}).layer("attn_output", {32, 32});
    layer("ffn_gate_inp", {32, 3}).layer("ffn_down_exps", {32, 32, 3});
  }

  SmallGguf& add(const std::string& name, std::vector<int64_t> sizes,
                 BlockType type = BlockType::f32) {
    int64_t elements = 1;
    for (const int64_t size : sizes) elements *= size;
    const BlockFormat& format = block_format(type);
    bytes_.tensor({name, std::move(sizes), format.gguf_id, end_});
    const auto bytes = static_cast<uint64_t>(elements / format.elements * format.bytes);
    end_ += (bytes + 31) / 32 * 32;
    return *this;
  }
  SmallGguf& key(const std::string& name, uint32_t value) {
    bytes_.u32(arch_ + "." + name, value);
    return *this;
  }
  SmallGguf& layer(const std::string& name, std::vector<int64_t> sizes,
                   BlockType type = BlockType::f32) {
    return add("blk.0." + name + ".weight", std::move(sizes), type);
  }

  Result<Checkpoint> open() const {
    auto header = parse_bytes(bytes_.file(end_));
    EXPECT_TRUE(header) << render(header.error());
    const Gguf file{{{"x.gguf", header->file_bytes}}, header->values, header->tensors};
    return gguf_checkpoint(
        file, [](const GgufTensor&) -> Result<std::vector<float>> { return std::vector<float>(); });
  }

 private:
  std::string arch_;
  GgufBytes bytes_;
  uint64_t end_ = 0;
};

SmallGguf whole() {
  return SmallGguf().layer("ffn_gate_exps", {32, 32, 3}).layer("ffn_up_exps", {32, 32, 3});
}

std::string derived(const Result<Checkpoint>& checkpoint, const std::string& name) {
  EXPECT_TRUE(checkpoint) << render(checkpoint.error());
  const WeightView* view = checkpoint ? checkpoint->weights.find_derived(name) : nullptr;
  return view ? to_string(*view) : "none";
}

std::string code_of(const Result<Checkpoint>& checkpoint) {
  return checkpoint ? "fine" : checkpoint.error().front().code;
}

TEST(GgufCheckpoint, DeinterleavesRowsOfRotatedPairs) {
  const auto checkpoint = whole().open();
  EXPECT_EQ(derived(checkpoint, "blk.0.attn_q.weight"),
            "@blk.0.attn_q.weight:f32[32,32] | reshape(2, 8, 2, 32) | permute(0, 2, 1, 3) | "
            "reshape(32, 32)");
  EXPECT_EQ(derived(checkpoint, "blk.0.attn_k.weight"),
            "@blk.0.attn_k.weight:f32[16,32] | reshape(1, 8, 2, 32) | permute(0, 2, 1, 3) | "
            "reshape(16, 32)");
  EXPECT_EQ(derived(checkpoint, "blk.0.attn_v.weight"), "none");
  EXPECT_EQ(checkpoint->config.family, "mixtral");
  EXPECT_TRUE(checkpoint->config.head.tied);
}

TEST(GgufCheckpoint, DecodesQuantizedBlocks) {
  const auto checkpoint = SmallGguf()
                              .layer("ffn_gate_exps", {32, 32, 3}, BlockType::q8_0)
                              .layer("ffn_up_exps", {32, 32, 3})
                              .open();
  EXPECT_EQ(derived(checkpoint, "blk.0.ffn_gate_exps.weight"),
            "@blk.0.ffn_gate_exps.weight:u8[3,32,34] | unblock(q8_0)");
}

TEST(GgufCheckpoint, MultipliesSeparateFactors) {
  auto checkpoint =
      whole().add("blk.0.ffn_up_exps.scale", {3}).add("blk.0.attn_v.scale", {1}).open();
  EXPECT_EQ(derived(checkpoint, "blk.0.ffn_up_exps.weight"),
            "@blk.0.ffn_up_exps.weight:f32[3,32,32] | dequant(1, 32, 32; "
            "@blk.0.ffn_up_exps.scale:f32[3] | reshape(3, 1, 1))");
  EXPECT_EQ(derived(checkpoint, "blk.0.attn_v.weight"),
            "@blk.0.attn_v.weight:f32[16,32] | dequant(16, 32; @blk.0.attn_v.scale:f32[1] | "
            "reshape(1, 1))");
  EXPECT_EQ(code_of(whole().add("blk.0.ffn_up_exps.scale", {2}).open()), "gguf.tensor_dims");
  EXPECT_EQ(code_of(whole().add("blk.0.attn_v.scale", {1}, BlockType::i32).open()),
            "gguf.tensor_dims");
}

TEST(GgufCheckpoint, RejectsEmptyTensors) {
  EXPECT_EQ(code_of(SmallGguf()
                        .layer("ffn_gate_exps", {32, 32, 3})
                        .layer("ffn_up_exps", {})
                        .add("blk.0.ffn_up_exps.scale", {3})
                        .open()),
            "gguf.tensor_dims");
}

// test_gguf_exports.py covers such layers in an architecture that supports them.
TEST(GgufCheckpoint, RejectsLayersAfterTheDecoder) {
  const auto with_layers = [](uint32_t layers) {
    SmallGguf gguf = whole();
    gguf.key("nextn_predict_layers", layers).add("blk.1.attn_norm.weight", {32});
    return gguf.open();
  };
  EXPECT_EQ(code_of(with_layers(0xffffffff)), "gguf.value");
  EXPECT_EQ(code_of(with_layers(0)), "gguf.tensor_unused");
}

TEST(GgufCheckpoint, NamesMissingAndUnusedTensors) {
  const auto missing = SmallGguf().layer("ffn_up_exps", {32, 32, 3}).open();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().front().code, "gguf.tensor_missing");
  EXPECT_THAT(missing.error().front().cause, HasSubstr("blk.0.ffn_gate_exps.weight"));
  EXPECT_EQ(
      code_of(
          SmallGguf().layer("ffn_gate_exps", {32, 32, 2}).layer("ffn_up_exps", {32, 32, 3}).open()),
      "gguf.tensor_dims");
  EXPECT_EQ(code_of(whole().layer("attn_q_norm", {16}).open()), "gguf.tensor_unused");
  EXPECT_EQ(code_of(SmallGguf()
                        .layer("ffn_gate_exps", {32, 32, 3}, BlockType::i32)
                        .layer("ffn_up_exps", {32, 32, 3})
                        .open()),
            "gguf.tensor_type");
}

}  // namespace
}  // namespace moec
