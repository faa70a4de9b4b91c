// A small valid manifest: one dense layer, one layer with a router and two expert groups, two token
// widths, and a head in two slices.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"

namespace moec {

class SampleManifest {
 public:
  static Manifest make() { return SampleManifest().manifest_; }

 private:
  static constexpr int64_t kHidden = 8, kVocab = 10, kContext = 16, kKvHeads = 2, kHeadDim = 4;
  static constexpr int64_t kExperts = 5;
  static constexpr const char* kDigest = "00112233445566778899aabbccddeeff";
  static WeightRange range() { return {StoredAs::values, 0, 128, 64, 64, kDigest}; }

  SampleManifest() {
    add_model();
    add_attention("L00.attn", 0, "embed", "L00.hidden");
    add_feed_forward("L00.mlp", ShardKind::mlp, 0, "L00.hidden", "L00.out");
    add_attention("L01.attn", 1, "L00.out", "L01.hidden");
    add_router();
    add_group(0, 3, "L01.hidden", "L01.acc");
    add_group(3, 2, "L01.acc", "L01.out");
    add_head("lm_head.0", 0, 6);
    add_head("lm_head.1", 6, 4);
    add_devices();
    manifest_.ignored = {{"rotary.inv_freq", "computed from the configuration"}};
    manifest_.golden = {{"L00.attn", DType::f32, 0.999999871234567, 1e-7}};
  }

  static manifest::FileRef file(const std::string& path, int64_t bytes) {
    return {path, bytes, kDigest};
  }

  static Router router() {
    return {.top_k = 2, .renorm = Renorm::sum_plus_eps, .eps = 1e-20, .scale = 2.5};
  }

  void add_model() {
    Manifest& m = manifest_;
    m.tool = {"moec", "0.1.0"};
    m.model = {"qwen3_moe", "ffeeddccbbaa99887766554433221100", kHidden, kVocab, 2, 64, 1e-6, true};
    m.build = {"onnx",    ShardFormat::onnx, DType::f32, Layout::rows, {1, 4},
               kContext,  CacheForm::append, 1,          "host",       true,
               "unrolled"};
    m.build.budgets = {{ShardKind::mlp, 4096}, {ShardKind::experts, 8192}};
    m.tokenizer = manifest::TokenizerKind::bytes;
    m.carried = {file("tokenizer.json", 70)};
    m.side_files = {file("report.json", 50)};
    m.embedding = {file("embed.bin", kVocab * kHidden * 2), DType::f16, kVocab, kHidden};
    m.rope = {{file("rope.bin", 64 * kHeadDim * 2), DType::f16, 64, kHeadDim},
              RopeStyle::half,
              false,
              {kHeadDim / 2}};
    for (int64_t layer : {0, 1})
      m.caches.push_back({layer, kKvHeads, kContext, kHeadDim, kHeadDim, DType::f32});
    m.logits.vocab = kVocab;
  }

  static manifest::Port tokens(const std::string& name, int64_t channels, int64_t width) {
    return {name, token_type(DType::f32, Layout::rows, channels, width)};
  }
  static manifest::Port plain(const std::string& name, Dims dims) {
    return {name, Type{DType::f32, std::move(dims)}};
  }

  // Adds a shard; `ports(width, T)` adds the inputs and outputs of each width.
  template <class Ports>
  manifest::Shard& add_shard(const std::string& name, ShardKind kind, int64_t layer, Ports ports) {
    manifest::Shard& shard = manifest_.shards.emplace_back();
    shard.name = name;
    shard.kind = kind;
    shard.layer = layer;
    shard.layers = layer < 0 ? 0 : 1;
    if (kind == ShardKind::router || kind == ShardKind::experts) shard.moe_layers = {layer};
    for (int64_t width : manifest_.build.tokens) {
      manifest::Width& made = shard.widths.emplace_back();
      made.tokens = width;
      made.file = file(name + ".t" + std::to_string(width) + ".onnx", 1000 + width);
      made.graph = kDigest;
      ports(made, width);
    }
    shard.data = {file(name + ".data", 4096)};
    shard.weight_bytes = 4096;
    shard.weights = {{"norm.weight", WeightRole::plain, 0, 0, kDigest, {range()}}};
    shard.ops = {{"add", 2}, {"matmul", 7}};
    shard.cost = {4096, 2048, 1024, 512};
    shard.placement = {{"onnxruntime", 9, {{"O3", 9}}}};
    return shard;
  }

  void add_attention(const std::string& name, int64_t layer, const std::string& from,
                     const std::string& to) {
    add_shard(name, ShardKind::attention, layer, [](manifest::Width& made, int64_t width) {
      Dims cache = {1, kKvHeads, kContext, kHeadDim}, rows = {1, kKvHeads, width, kHeadDim};
      made.inputs = {tokens("x", kHidden, width),
                     plain("rope_cos", {width, kHeadDim / 2}),
                     plain("rope_sin", {width, kHeadDim / 2}),
                     plain("attn_mask", {1, 1, width, kContext + width}),
                     plain("k_state", cache),
                     plain("v_state", cache)};
      made.outputs = {tokens("hidden", kHidden, width), plain("k_new", rows), plain("v_new", rows)};
    });
    manifest_.schedule.push_back({name,
                                  {{"x", SourceKind::edge, from},
                                   {"rope_cos", SourceKind::rope_cos},
                                   {"rope_sin", SourceKind::rope_sin},
                                   {"attn_mask", SourceKind::attn_mask, "", layer * 5},
                                   {"k_state", SourceKind::k_cache, "", 0, layer},
                                   {"v_state", SourceKind::v_cache, "", 0, layer}},
                                  {{"hidden", SinkKind::edge, to},
                                   {"k_new", SinkKind::k_rows, "", layer},
                                   {"v_new", SinkKind::v_rows, "", layer}}});
  }

  void add_feed_forward(const std::string& name, ShardKind kind, int64_t layer,
                        const std::string& from, const std::string& to) {
    add_shard(name, kind, layer, [](manifest::Width& made, int64_t width) {
      made.inputs = {tokens("hidden", kHidden, width)};
      made.outputs = {tokens("moe_out", kHidden, width)};
    });
    manifest_.schedule.push_back(
        {name, {{"hidden", SourceKind::edge, from}}, {{"moe_out", SinkKind::edge, to}}});
  }

  void add_router() {
    auto ports = [](manifest::Width& made, int64_t width) {
      made.inputs = {tokens("hidden", kHidden, width)};
      made.outputs = {tokens("routing_weights", kExperts, width)};
    };
    manifest::Shard& shard = add_shard("L01.router", ShardKind::router, 1, ports);
    shard.routing = {kExperts, router()};
    std::string rows;
    for (int64_t e = 0; e < kExperts; ++e) rows += kDigest;
    shard.weights.push_back({"router.weight", WeightRole::routing, 0, 0, rows, {range()}});
    manifest_.schedule.push_back({"L01.router",
                                  {{"hidden", SourceKind::edge, "L01.hidden"}},
                                  {{"routing_weights", SinkKind::edge, "L01.routing"}}});
  }

  void add_group(int64_t first, int64_t count, const std::string& from, const std::string& to) {
    std::string name = "L01.moe.g" + std::to_string(first == 0 ? 0 : 1);
    auto ports = [](manifest::Width& made, int64_t width) {
      made.inputs = {tokens("acc", kHidden, width), tokens("hidden", kHidden, width),
                     tokens("routing_weights", kExperts, width)};
      made.outputs = {tokens("moe_out", kHidden, width)};
    };
    manifest::Shard& shard = add_shard(name, ShardKind::experts, 1, ports);
    shard.first_expert = first;
    shard.experts = count;
    shard.routing = {kExperts, router()};
    for (int64_t e = first; e < first + count; ++e)
      for (const char* part : {"gate", "up", "down"})
        shard.weights.push_back({"experts." + std::to_string(e) + "." + part + ".weight",
                                 WeightRole::expert,
                                 0,
                                 e,
                                 kDigest,
                                 {range()}});
    manifest_.schedule.push_back({name,
                                  {{"acc", SourceKind::edge, from},
                                   {"hidden", SourceKind::edge, "L01.hidden"},
                                   {"routing_weights", SourceKind::edge, "L01.routing"}},
                                  {{"moe_out", SinkKind::edge, to}},
                                  "acc",
                                  "moe_out"});
  }

  void add_head(const std::string& name, int64_t begin, int64_t size) {
    auto ports = [size](manifest::Width& made, int64_t width) {
      made.inputs = {tokens("hidden", kHidden, width)};
      made.outputs = {tokens("logits", size, width)};
    };
    manifest::Shard& shard = add_shard(name, ShardKind::lm_head, -1, ports);
    shard.vocab_begin = begin;
    shard.vocab_size = size;
    manifest_.schedule.push_back(
        {name, {{"hidden", SourceKind::edge, "L01.out"}}, {{"logits", SinkKind::logits}}});
    manifest_.logits.slices.push_back({name, "logits", begin, size});
  }

  // The first expert group is on both devices, the second one only on gpu1.
  void add_devices() {
    manifest_.devices = {{"gpu0", 4000000000, {}}, {"gpu1", 2000000000, {}}};
    for (const manifest::Shard& shard : manifest_.shards)
      if (shard.name != "L01.moe.g1") manifest_.devices[0].shards.push_back({shard.name});
    manifest_.devices[1].shards = {{"L01.moe.g0"}, {"L01.moe.g1"}};
  }

  Manifest manifest_;
};

}  // namespace moec
