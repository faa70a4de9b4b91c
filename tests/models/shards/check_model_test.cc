#include "models/shards/check_model.h"

#include <gmock/gmock.h>

#include <functional>

#include "tests/models/sample_model.h"

namespace moec {
namespace {

using Change = std::function<void(ModelConfig&)>;

void expect_finding(const Change& change, const std::string& code, const std::string& part) {
  ModelConfig model = sample_model();
  change(model);
  Diagnostics findings = check_model(model);
  ASSERT_FALSE(findings.empty()) << "expected " << code;
  EXPECT_EQ(findings[0].code, code);
  EXPECT_THAT(findings[0].cause, testing::HasSubstr(part));
}

TEST(CheckModel, AcceptsTheSample) { EXPECT_EQ(render(check_model(sample_model())), ""); }

TEST(CheckModel, RejectsInvalidSizes) {
  expect_finding([](ModelConfig& m) { m.hidden = 0; }, "model.size", "hidden is 0");
  expect_finding([](ModelConfig& m) { m.vocab = -1; }, "model.size", "vocab is -1");
  expect_finding([](ModelConfig& m) { m.layers.clear(); }, "model.size", "layers is 0");
  expect_finding([](ModelConfig& m) { m.moe.expert_ff = 0; }, "model.size", "expert_ff is 0");
}

TEST(CheckModel, RejectsSizesAboveTheOpLimits) {
  expect_finding([](ModelConfig& m) { m.attention.heads = m.attention.kv_heads = 1 << 21; },
                 "model.size", "heads is 2097152");
  expect_finding([](ModelConfig& m) { m.moe.experts = 1 << 21; }, "model.size",
                 "experts is 2097152");
}

TEST(CheckModel, RejectsMatricesWithTooManyElements) {
  expect_finding([](ModelConfig& m) { m.hidden = m.vocab = 1 << 25; }, "model.size",
                 "the embedding has the shape [33554432,33554432]");
  expect_finding([](ModelConfig& m) { m.moe.expert_ff = 1 << 30, m.hidden = 1 << 20; },
                 "model.size", "the experts' matrix has the shape [5,2,1073741824,1048576]");
}

TEST(CheckModel, RejectsInvalidMultipliers) {
  expect_finding([](ModelConfig& m) { m.stream.embedding_scale = 0; }, "model.number",
                 "the embedding scale is 0");
  expect_finding([](ModelConfig& m) { m.stream.residual_scale = -1; }, "model.number",
                 "the residual scale is -1");
  expect_finding([](ModelConfig& m) { m.head.divisor = INFINITY; }, "model.number",
                 "the divisor of the logits is inf");
}

TEST(CheckModel, RequiresDivisibleKeyValueHeads) {
  expect_finding([](ModelConfig& m) { m.attention.kv_heads = 3; }, "model.heads",
                 "4 query heads are not divisible by 3 key/value heads");
}

TEST(CheckModel, RejectsInvalidAttention) {
  auto with = [](const std::function<void(AttentionConfig&)>& change) {
    return [change](ModelConfig& m) {
      m.more_attention = {m.attention};
      m.layers[1].attention = 1;
      change(m.more_attention[0]);
    };
  };
  ModelConfig model = sample_model();
  with([](AttentionConfig& a) { a.kv_heads = 4, a.rope.theta = 500; })(model);
  EXPECT_EQ(render(check_model(model)), "");
  expect_finding(with([](AttentionConfig& a) { a.kv_heads = 3; }), "model.heads", "3 key/value");
  expect_finding(with([](AttentionConfig& a) { a.rope.style = RopeStyle::interleaved; }),
                 "model.attention", "another style of rotation");
  expect_finding([](ModelConfig& m) { m.layers[1].attention = 1; }, "model.attention",
                 "layer 1 has attention kind 1");
}

TEST(CheckModel, RejectsInvalidPostNorms) {
  expect_finding([](ModelConfig& m) { m.stream.layer_scale = true; }, "model.residual",
                 "needs norms after the parts");
  expect_finding(
      [](ModelConfig& m) {
        m.stream.post_norms = PostNorms::all, m.stream.residual = ResidualKind::affine;
      },
      "model.residual", "need plain residuals");
  expect_finding([](ModelConfig& m) { m.moe.parts_normed = true; }, "model.experts",
                 "need a shared expert");
  expect_finding([](ModelConfig& m) { m.moe.router_map.normed = m.moe.router_map.bias = true; },
                 "model.router", "a router with a separate norm");
  expect_finding([](ModelConfig& m) { m.head.softcap = -1; }, "model.number",
                 "the cap of the logits is -1");
}

TEST(CheckModel, RejectsInvalidKimiDelta) {
  const auto with = [](int64_t key_heads, std::optional<double> least) {
    return [=](ModelConfig& m) {
      m.recurrent = RecurrentConfig{.taps = 4,
                                    .channels = 12,
                                    .key_heads = key_heads,
                                    .value_heads = 2,
                                    .key_dim = 2,
                                    .value_dim = 2,
                                    .least_log_decay = least};
      m.layers[0].mixer = MixerKind::kimi_delta;
    };
  };
  expect_finding(with(1, std::nullopt), "model.mixer", "2 value heads and 1 key heads");
  expect_finding(with(2, 0.0), "model.mixer", "log decays is 0");
}

TEST(CheckModel, RejectsInvalidLatentAttention) {
  auto with = [](LatentConfig latent) {
    return [latent](ModelConfig& m) { m.attention.latent = latent; };
  };
  expect_finding(with({4, 0, 6, 5, 2, 1e-6}), "model.size", "kv_rank is 0");
  expect_finding(with({4, 7, 0, 5, 2, 1e-6}), "model.size", "shared_dims is 0");
  expect_finding(with({4, 7, 6, 0, 2, 1e-6}), "model.size", "key_dims is 0");
  expect_finding(with({4, 7, 6, 5, 0, 1e-6}), "model.size", "value_dims is 0");
  expect_finding(with({-1, 7, 6, 5, 2, 1e-6}), "model.size", "q_rank is -1");
  expect_finding(with({4, 7, 6, 5, 2, -1}), "model.number", "the latents' norm eps is -1");
  expect_finding(with({4, 7, 99, 5, 2, 1e-6}), "model.rope",
                 "6 rotated dims in latent attention, expected 99 as shared by the keys");
}

TEST(CheckModel, RequiresUniformLookahead) {
  expect_finding([](ModelConfig& m) { m.layers[1].ahead = -1; }, "model.number",
                 "sees -1 later keys");
  expect_finding([](ModelConfig& m) { m.layers[1].ahead = 3; }, "model.attention",
                 "1 of 2 layers see later tokens");
  expect_finding(
      [](ModelConfig& m) {
        for (LayerConfig& layer : m.layers) layer.ahead = 3;
        m.layers[0].chunk = 4;
      },
      "model.attention", "chunked attention cannot see");
}

TEST(CheckModel, RejectsInvalidLabels) {
  expect_finding([](ModelConfig& m) { m.head.labels = {"O"}; }, "model.labels", "has 1 labels");
  expect_finding([](ModelConfig& m) { m.head.task = Task::token_classification; }, "model.size",
                 "labels is 0");
  expect_finding(
      [](ModelConfig& m) {
        m.head.task = Task::token_classification;
        m.head.labels = {"O"};
        m.head.tied = true;
      },
      "model.labels", "cannot be tied to the embedding");
}

TEST(CheckModel, RejectsInvalidTopK) {
  expect_finding([](ModelConfig& m) { m.moe.routing.top_k = 6; }, "model.top_k",
                 "top-k is 6 of 5 experts");
  expect_finding([](ModelConfig& m) { m.moe.routing.top_k = 0; }, "model.top_k", "0 of 5");
  auto grouped = [](ModelConfig& m) {
    m.moe.experts = 8;
    m.moe.routing.groups = 4;
    m.moe.routing.groups_kept = 1;
    m.moe.routing.top_k = 3;
  };
  expect_finding(grouped, "model.top_k", "1 kept groups of 2 have only 2");
}

TEST(CheckModel, RejectsInvalidGroups) {
  expect_finding([](ModelConfig& m) { m.moe.routing.groups = 2; }, "model.groups",
                 "5 experts cannot be chosen from 1 of 2 groups");
  auto singles = [](ModelConfig& m) {
    m.moe.routing.groups = 5;
    m.moe.routing.groups_kept = 5;
    m.moe.routing.group_score = GroupScore::top2_sum;
  };
  expect_finding(singles, "model.groups", "top2_sum needs groups");
}

TEST(CheckModel, RejectsInvalidRope) {
  expect_finding([](ModelConfig& m) { m.attention.rope.dims = 5; }, "model.rope",
                 "5 rotated dims in heads of 6");
  expect_finding([](ModelConfig& m) { m.attention.rope.dims = 8; }, "model.rope", "8 rotated dims");
  expect_finding([](ModelConfig& m) { m.attention.rope.theta = 0; }, "model.rope", "rope_theta");
  auto scaled = [](RopeScaling scaling, auto change) {
    return [=](ModelConfig& m) {
      m.attention.rope.scaling = scaling;
      m.attention.rope.original_max_positions = 32;
      change(m.attention.rope);
    };
  };
  expect_finding(scaled(RopeScaling::linear, [](RopeConfig& r) { r.factor = 0; }), "model.rope",
                 "factor");
  expect_finding(scaled(RopeScaling::llama3, [](RopeConfig& r) { r.high_freq_factor = 1; }),
                 "model.rope", "low_freq_factor 1");
  expect_finding(scaled(RopeScaling::yarn, [](RopeConfig& r) { r.yarn.slow = 64; }), "model.rope",
                 "beta_slow 64");
  expect_finding(scaled(RopeScaling::yarn, [](RopeConfig& r) { r.original_max_positions = 0; }),
                 "model.rope", "original_max_position_embeddings");
}

TEST(CheckModel, RejectsInvalidLongropeFactors) {
  auto factors = [](const RopeFactors& long_factors) {
    return [=](ModelConfig& m) {
      m.attention.rope.scaling = RopeScaling::longrope;
      m.attention.rope.original_max_positions = 32;
      m.attention.rope.short_factors = {{1, 1, 1}, 1};
      m.attention.rope.long_factors = long_factors;
    };
  };
  expect_finding(factors({{1, 2}, 1}), "model.rope",
                 "needs 3 factors above 0 per list, one list has 2");
  expect_finding(factors({{1, 2, 0}, 1}), "model.rope", "factors above 0");
  expect_finding(factors({{1, 2, 3}, -1}), "model.rope", "longrope's amplitude is -1");
}

TEST(CheckModel, RejectsInvalidTemperature) {
  expect_finding(
      [](ModelConfig& m) {
        m.attention.temperature = QueryTemperature{-0.1, 8};
      },
      "model.number", "the scale of the query temperature is -0.1");
  expect_finding(
      [](ModelConfig& m) {
        m.attention.temperature = QueryTemperature{0.1, 0};
      },
      "model.number", "the step of the query temperature is 0");
  auto without_rotation = [](ModelConfig& m) {
    m.attention.temperature = QueryTemperature{0.1, 8};
    m.attention.rope.style = RopeStyle::none;
  };
  expect_finding(without_rotation, "model.attention", "requires a model with rotation");
}

TEST(CheckModel, RejectsRoutersThatMismatchTheExperts) {
  auto three_picks = [](ModelConfig& m) {
    m.moe.routing.score = Score::sparsemixer;
    m.moe.routing.renorm = Renorm::none;
    m.moe.routing.top_k = 3;
  };
  expect_finding(three_picks, "model.top_k", "sparsemixer requires a top-k of 2, got 3");
  auto biased = [](ModelConfig& m) {
    m.moe.weight_on = RoutedWeight::input;
    m.moe.expert_biases = true;
  };
  expect_finding(biased, "model.experts", "require experts without biases");
}

TEST(CheckModel, RejectsInvalidExpertLatents) {
  const auto with = [](const Change& change) {
    return [=](ModelConfig& m) {
      m.moe.latent = 6;
      change(m);
    };
  };
  const auto biased = [](ModelConfig& m) { m.mlp.bias = true; };
  expect_finding(with(biased), "model.experts", "needs a shared expert, with which");
  const auto inputs = [](ModelConfig& m) { m.moe.weight_on = RoutedWeight::input; };
  expect_finding(with(inputs), "model.experts", "routing weights on their inputs");
  const auto normed = [](ModelConfig& m) {
    m.moe.parts_normed = true;
    m.moe.shared_ff = 4;
  };
  expect_finding(with(normed), "model.experts", "cannot have separate norms");
  expect_finding([](ModelConfig& m) { m.moe.latent = -1; }, "model.size", "latent of the experts");
  expect_finding([](ModelConfig& m) { m.moe.latent = 6; }, "model.roles", "\"latent_in\"");
}

TEST(CheckModel, RejectsInvalidNumbers) {
  expect_finding([](ModelConfig& m) { m.norm.eps = -1; }, "model.number", "norm eps is -1");
  expect_finding([](ModelConfig& m) { m.attention.scale = 0; }, "model.number", "scale is 0");
  expect_finding([](ModelConfig& m) { m.attention.scaling.clip_qkv = -2; }, "model.number",
                 "clip_qkv");
  expect_finding([](ModelConfig& m) { m.moe.routing.eps = -1; }, "model.number", "eps is -1");
}

TEST(CheckModel, RequiresAWidthForDenseLayers) {
  expect_finding([](ModelConfig& m) { m.mlp.ff = 0; }, "model.dense", "no width");
}

TEST(CheckModel, RequiresANameForEachRole) {
  expect_finding([](ModelConfig& m) { m.names.by_role.erase("k_norm"); }, "model.roles",
                 "the family sample has no tensor name for the role \"k_norm\"");
}

}  // namespace
}  // namespace moec
