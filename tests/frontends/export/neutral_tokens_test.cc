// Masked tokens have no effect: neither later tokens, for any attention score, nor the padding of a
// partial chunk.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using Tokens = std::vector<int64_t>;

std::string exported(const CheckpointCopy& copy, const Words& flags) {
  const std::string out = fresh_folder("out");
  Words words = {"export", copy.folder(), "--out", out, "--quiet", "--tokens", "1,4"};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(run_command(words));
  return out;
}

// Returns the logits after feeding the chunks in sequence.
std::vector<float> logits_of(const std::string& folder, const std::vector<Tokens>& chunks) {
  auto session = Session::open(folder, read_shard);
  EXPECT_TRUE(session.has_value());
  std::vector<float> logits;
  for (const Tokens& chunk : chunks) {
    const auto rows = session->feed(chunk);
    EXPECT_TRUE(rows.has_value()) << render(rows.error());
    logits.insert(logits.end(), rows->data.begin(), rows->data.end());
  }
  return logits;
}

double greatest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double greatest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(std::isfinite(a[i]) && std::isfinite(b[i])) << i;
    greatest = std::max(greatest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return greatest;
}

TEST(NeutralTokens, HideLaterTokensForAnyScore) {
  const CheckpointCopy copy("granitemoe_a");
  copy.edit_config([](auto& config) { config["attention_multiplier"] = 1e5; });
  const std::string out = exported(copy, {});
  const std::vector<float> one = logits_of(out, {{5, 17, 42}});
  const std::vector<float> other = logits_of(out, {{5, 17, 80}});
  const auto earlier = static_cast<ptrdiff_t>(one.size() / 3 * 2);
  EXPECT_EQ(std::vector(one.begin(), one.begin() + earlier),
            std::vector(other.begin(), other.begin() + earlier));
  EXPECT_NE(one, other);
}

class NeutralPadding : public testing::TestWithParam<Variant> {};

TEST_P(NeutralPadding, StaysNeutralWithZeroEps) {
  const CheckpointCopy copy("qwen3_moe_a");
  copy.edit_config([](auto& config) { config["rms_norm_eps"] = 0; });
  const std::string out = exported(copy, GetParam().flags);
  const std::vector<float> padded = logits_of(out, {{5, 17, 42}});
  const std::vector<float> whole = logits_of(out, {{5}, {17}, {42}});
  EXPECT_LE(greatest_difference(padded, whole), GetParam().flags.empty() ? 1e-5 : 0.05);
}

INSTANTIATE_TEST_SUITE_P(Types, NeutralPadding,
                         testing::Values(Variant{"f32", {}}, Variant{"f16", {"--dtype", "f16"}},
                                         Variant{"ane", {"--target", "ane"}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
