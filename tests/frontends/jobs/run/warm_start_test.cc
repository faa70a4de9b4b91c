// Runs that start with full slots, loaded from the state of an earlier run or from a file of
// prepacked experts. Their logits equal those of a cold start bit for bit.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/residency/pinned_experts.h"
#include "backends/runtime/experts/write_prepacked.h"
#include "backends/runtime/session/session.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;

std::string warm_export(const std::string& golden, Words flags) {
  const std::string out = fresh_folder("out") + "/out";
  flags.insert(flags.end(), {"--context", "32", "--tokens", "1,4"});
  expect_fine(export_case(golden, out, flags));
  return out;
}

Session warm_session(const std::string& out, const std::optional<ExpertStoreOptions>& experts,
                     Precision precision) {
  auto session = Session::open(out, read_shard, {.precision = precision, .experts = experts});
  EXPECT_TRUE(session) << render(session.error());
  return std::move(*session);
}

std::vector<float> text_logits(Session& session) {
  std::vector<float> logits;
  for (const std::vector<int64_t>& chunk :
       {std::vector<int64_t>{3, 1, 4, 1, 5, 9, 2}, {6}, {5}, {3}, {5}, {8}}) {
    const auto rows = session.feed(chunk);
    EXPECT_TRUE(rows) << render(rows.error());
    if (rows) logits.insert(logits.end(), rows->data.begin(), rows->data.end());
  }
  return logits;
}

// A pack of the upper half of the experts, which loading in numeric order would not start with.
std::string packed(const std::string& out, int64_t capacity, int64_t pin_top_k) {
  const Manifest manifest = read_manifest(out).value();
  const ExpertGrid grid = expert_grid(manifest);
  PrepackChoice choice{capacity, pin_top_k, {}};
  for (const int64_t layer : grid.layers)
    for (int64_t e = grid.experts; e-- > 0;) choice.wanted.push_back({layer, e});
  const std::string file = fresh_folder("pack") + "/warm.pack";
  const auto table = write_prepacked(manifest, out, choice, file);
  EXPECT_TRUE(table) << render(table.error());
  return file;
}

struct WarmCase {
  const char* name;
  const char* golden;
  Words flags;
  Precision precision = Precision::f32;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const WarmCase& c, std::ostream* out) { *out << c.name; }

class WarmStarts : public testing::TestWithParam<WarmCase> {};

TEST_P(WarmStarts, MatchColdStartsBitForBit) {
  const Precision precision = GetParam().precision;
  const std::string out = warm_export(GetParam().golden, GetParam().flags);
  Session all = warm_session(out, std::nullopt, precision);
  const std::vector<float> wanted = text_logits(all);
  for (const PolicyKind policy : {PolicyKind::lru, PolicyKind::lfu, PolicyKind::lcp}) {
    const std::string state = fresh_folder("state") + "/state.json";
    const ExpertStoreOptions options{.capacity = 2, .policy = policy, .state = state};
    Session cold = warm_session(out, options, precision);
    EXPECT_EQ(text_logits(cold), wanted);
    EXPECT_FALSE(cold.experts()->start());
    EXPECT_TRUE(cold.experts()->save_state());
    Session warm = warm_session(out, options, precision);
    EXPECT_EQ(warm.experts()->state(), cold.experts()->state());
    EXPECT_EQ(text_logits(warm), wanted);
    const WarmStart start = warm.experts()->start().value();
    EXPECT_EQ(start.experts, std::ssize(read_cache_state(state)->experts));
    EXPECT_GT(start.bytes, 0u);
    EXPECT_EQ(start.first.tokens, 12);
    EXPECT_EQ(start.first.hits, warm.experts()->counts().hits);
  }
  for (const int64_t capacity : {1, 2, 3}) {
    const std::string file = packed(out, 2, 0);
    Session warm =
        warm_session(out, ExpertStoreOptions{.capacity = capacity, .prepacked = file}, precision);
    EXPECT_EQ(warm.experts()->start()->experts,
              std::min<int64_t>(capacity, 2) * std::ssize(expert_grid(warm.manifest()).layers));
    EXPECT_EQ(text_logits(warm), wanted) << capacity;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, WarmStarts,
    testing::Values(
        WarmCase{"tinymoe", "tinymoe", {"--experts-per-shard", "4"}},
        WarmCase{"qwen3_f16", "qwen3_moe_a", {"--experts-per-shard", "3", "--dtype", "f16"}},
        WarmCase{"gpt_oss_alone", "gpt_oss_a", {"--experts-per-shard", "1"}},
        WarmCase{"int8", "qwen2_moe_a", {"--experts-per-shard", "3", "--weights", "experts=int8"}},
        WarmCase{"olmoe_matmul", "olmoe_a", {"--experts-per-shard", "4", "--form", "matmul"}},
        WarmCase{"core_ml_f16",
                 "qwen3_moe_a",
                 {"--target", "ane", "--experts-per-shard", "3"},
                 Precision::f16},
        WarmCase{"core_ml_biases", "gpt_oss_b", {"--target", "ane", "--routing", "host"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Runs the export with additional flags.
struct WarmRun {
  std::string out = fresh_folder("out") + "/out";
  std::string state = fresh_folder("state") + "/state.json";

  WarmRun() { expect_fine(export_case("tinymoe", out, {"--experts-per-shard", "4"})); }
  Outcome with(Words more) const {
    Words words = {"run", out, "--prompt", "def ", "-n", "24"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
};

TEST(StateFile, WarmsLaterRuns) {
  const WarmRun run;
  const Outcome plain = run.with({});
  const Outcome cold = run.with({"--capacity", "8", "--state", run.state});
  EXPECT_EQ(cold.out, plain.out);
  EXPECT_THAT(cold.err, testing::Not(HasSubstr("[initial load:")));
  const Outcome warm = run.with({"--capacity", "8", "--state", run.state});
  EXPECT_EQ(warm.out, plain.out);
  EXPECT_THAT(warm.err, HasSubstr("[initial load: 32 experts, "));
  const auto json = nlohmann::json::parse(
      run.with({"--capacity", "8", "--state", run.state, "--json"}).out)["experts"]["start"];
  EXPECT_EQ(json["experts"], 32);
  EXPECT_GT(json["hit_rate"], json["cold_hit_rate"]);
  EXPECT_GT(json["cold_hit_rate"], 0);
  EXPECT_EQ(json["first_tokens"], 27);
  // All policies load the same number of experts.
  const Outcome other = run.with({"--capacity", "4", "--policy", "lcp", "--state", run.state});
  EXPECT_EQ(other.out, plain.out);
  EXPECT_THAT(other.err, HasSubstr("session.state_policy"));
  EXPECT_THAT(other.err, HasSubstr("[initial load: 16 experts, "));
  EXPECT_EQ(read_cache_state(run.state)->policy, PolicyKind::lcp);
}

TEST(StateFile, KeepsAndRejectsForeignFiles) {
  const WarmRun run;
  const auto refused = [&](const std::string& text, const std::string& code) {
    write_file(run.state, text);
    EXPECT_THAT(run.with({"--capacity", "4", "--state", run.state}).err, HasSubstr(code)) << text;
    EXPECT_EQ(read_file(run.state), text);
  };
  refused("a letter", "cache_state.syntax");
  refused("{\"format\": \"moec.expert_profile\", \"version\": 1}", "cache_state.bad_value");
  refused(cache_state_text({"mixtral", "00", PolicyKind::lru, 0, {}}), "session.state");
  const CacheState odd{"tinymoe",
                       ExpertPlaces::find(read_manifest(run.out).value(), run.out)->digest(),
                       PolicyKind::lru,
                       1,
                       {{{0, 99}, 1, 1, 1}}};
  refused(cache_state_text(odd), "has expert 99 of layer 0");
  EXPECT_THAT(run.with({"--state", run.state}).err, HasSubstr("run.flags"));
  EXPECT_THAT(run.with({"--capacity", "4", "--state", run.out + "/state.json"}).err,
              HasSubstr("output.in_source"));
}

// A state file that was changed during the run is not overwritten.
TEST(StateFile, IsRecheckedBeforeWriting) {
  const WarmRun run;
  Session session =
      warm_session(run.out, ExpertStoreOptions{.capacity = 2, .state = run.state}, Precision::f32);
  write_file(run.state, "notes");
  const Status saved = session.experts()->save_state();
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().front().code, "cache_state.syntax");
  EXPECT_EQ(read_file(run.state), "notes");
}

}  // namespace
}  // namespace moec
