// Sessions of models with recurrent states: the state depends only on the tokens, not on the
// division into steps or on padding.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

constexpr int64_t kTokens = 512;

// Exports the golden checkpoint for texts of 512 tokens.
std::string long_export(const std::string& golden_case,
                        const std::function<void(const CheckpointCopy&)>& change = {}) {
  const CheckpointCopy checkpoint(golden_case, golden_case + ".long");
  checkpoint.edit_config([](CheckpointCopy::Json& config) {
    config[config.contains("model_max_length") ? "model_max_length" : "max_position_embeddings"] =
        kTokens;
  });
  if (change) change(checkpoint);
  const std::string out = fresh_folder(golden_case + ".long_export");
  expect_fine(run_command({"export", checkpoint.folder(), "--out", out, "--quiet", "--target",
                           "onnx", "--dtype", "f32", "--tokens", "1,7,16,64", "--context", "512"}));
  return out;
}

Session opened(const std::string& out) {
  auto session = Session::open(out, read_shard);
  EXPECT_TRUE(session.has_value()) << render(session.error());
  return std::move(*session);
}

std::vector<int64_t> some_tokens(int64_t vocab) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < kTokens; ++i) tokens.push_back(i * i * 7 % 1009 % vocab);
  return tokens;
}

// Feeds the text in steps of `step` tokens and returns the last row of logits.
std::vector<float> feed_in(Session& session, const std::vector<int64_t>& tokens, int64_t step) {
  std::vector<float> last;
  for (int64_t begin = 0; begin < kTokens; begin += step) {
    const auto count = static_cast<size_t>(std::min(step, kTokens - begin));
    const auto logits = session.feed(std::span(tokens).subspan(static_cast<size_t>(begin), count));
    if (!logits) {
      ADD_FAILURE() << render(logits.error());
      return {};
    }
    const std::span<const float> row = logits->row(logits->count() - 1);
    last.assign(row.begin(), row.end());
  }
  return last;
}

// ‖a − b‖ / ‖b‖.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, whole = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    whole += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / whole);
}

// Feeds a text of 512 tokens one by one and in longer steps. Returns the number of compared states.
int64_t expect_the_same_states(const std::string& out) {
  Session one = opened(out);
  const std::vector<int64_t> tokens = some_tokens(one.manifest().model.vocab);
  const std::vector<float> wanted = feed_in(one, tokens, 1);
  int64_t states = 0;
  // Steps of 5 and 50 tokens are padded to the widths 7 and 64.
  for (const int64_t step : {5, 7, 16, 50, 64}) {
    Session session = opened(out);
    EXPECT_LT(apart(feed_in(session, tokens, step), wanted), 1e-4) << step;
    for (const manifest::Cache& cache : one.manifest().caches) {
      if (cache.kv_heads > 0) continue;
      const LayerCache &got = session.cache(cache.layer), &expected = one.cache(cache.layer);
      if (cache.history_tokens == 0) continue;  // a layer without a mixer
      EXPECT_LT(apart(got.history.data, expected.history.data), 1e-5) << step;
      if (cache.state.empty()) continue;
      EXPECT_LT(apart(got.state, expected.state), 1e-5) << step << " L" << cache.layer;
      ++states;
    }
  }
  return states;
}

class RecurrentSession : public testing::TestWithParam<const char*> {};

TEST_P(RecurrentSession, KeepsStatesIndependentOfSteps) {
  const int64_t states = expect_the_same_states(long_export(GetParam()));
  EXPECT_EQ(states > 0, !std::string_view(GetParam()).starts_with("lfm2_moe"));
}

TEST_P(RecurrentSession, RewindsOnlyToItsPosition) {
  Session session = opened(long_export(GetParam()));
  ASSERT_TRUE(session.feed(std::vector<int64_t>{3, 1, 4}));
  EXPECT_TRUE(session.rewind(3));
  EXPECT_FALSE(session.rewind(2)) << "states cannot be rewound";
  EXPECT_EQ(session.position(), 3);
}

// Three heads whose decays per token are at most e^-40, about e^-0.002, and typical. Within a step,
// a formulation with exponents of both signs would overflow to e^2500 for the first head.
TEST(StrongDecays, KeepStatesIndependentOfSteps) {
  const std::string speeds("\x80\x40\xc0\xc0\x00\x00", 6);  // 4, -6, 0 in bf16
  const auto change = [&](const CheckpointCopy& checkpoint) {
    for (const char* layer : {"0", "2"})
      checkpoint.overwrite(std::string("model.layers.") + layer + ".self_attn.A_log", speeds);
  };
  EXPECT_GT(expect_the_same_states(long_export("kimi_linear_a", change)), 0);
}

INSTANTIATE_TEST_SUITE_P(Mixers, RecurrentSession,
                         testing::Values("qwen3_next_a", "qwen3_next_b", "lfm2_moe_a", "lfm2_moe_b",
                                         "granitemoehybrid_a", "granitemoehybrid_b", "nemotron_h_a",
                                         "nemotron_h_b", "nemotron_h_c", "kimi_linear_a",
                                         "kimi_linear_b"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moec
