// --cache-dtype f16: a session that stores keys and values as f16.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/cpu/cpu_engine.h"
#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "backends/weights/views/convert.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string export_golden_case(const std::string& golden, const Words& flags = {}) {
  const std::string out = fresh_folder("cache_dtype." + golden);
  Words words = {"export", checkpoint_of(golden), "--out", out, "--quiet", "--tokens", "1,8"};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(run_command(words));
  return out;
}

Session opened(const std::string& out, DType cache_dtype, int threads = 1) {
  auto session = Session::open(
      out, read_shard, {.engine = cpu_engine(read_shard, threads), .cache_dtype = cache_dtype});
  EXPECT_TRUE(session.has_value()) << render(session.error());
  return std::move(*session);
}

// Rounds the keys and values of an f32 session as an f16 cache rounds them.
void round_caches(Session& session) {
  for (const manifest::Cache& cache : session.manifest().caches)
    for (CacheValues* values : {&session.cache(cache.layer).k, &session.cache(cache.layer).v})
      round_values(DType::f16, values->floats.data(), values->floats.size());
}

// Feeds chunks of several widths. `after` runs after each chunk.
template <class After>
std::vector<float> logits_of(Session& session, After after) {
  std::vector<float> all;
  for (const std::vector<int64_t>& tokens :
       {std::vector<int64_t>{3, 1, 4, 1, 5}, {9}, {2, 6}, {5}, {3, 5, 8, 9, 7}}) {
    const auto logits = session.feed(tokens);
    EXPECT_TRUE(logits.has_value()) << render(logits.error());
    if (logits) all.insert(all.end(), logits->data.begin(), logits->data.end());
    after(session);
  }
  return all;
}

struct CacheCase {
  const char* name;
  const char* golden;
  Words flags;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const CacheCase& which, std::ostream* out) { *out << which.name; }

class CacheDtype : public testing::TestWithParam<CacheCase> {};

TEST_P(CacheDtype, EqualsRoundedF32Caches) {
  const std::string out = export_golden_case(GetParam().golden, GetParam().flags);
  const auto nothing = [](Session&) {};
  Session exact = opened(out, DType::f32), rounded = opened(out, DType::f32);
  Session halves = opened(out, DType::f16);
  const std::vector<float> wanted = logits_of(rounded, round_caches);
  EXPECT_EQ(logits_of(halves, nothing), wanted);
  // A graph in f16 has rounded its keys and values already.
  const bool rounds = halves.manifest().build.dtype != DType::f16;
  EXPECT_EQ(logits_of(exact, nothing) != wanted, rounds);
  halves.reset();
  Session team = opened(out, DType::f16, 2);
  EXPECT_EQ(logits_of(halves, nothing), wanted) << "after a reset";
  EXPECT_EQ(logits_of(team, nothing), wanted) << "with two threads";
}

INSTANTIATE_TEST_SUITE_P(
    Exports, CacheDtype,
    testing::Values(CacheCase{"full_attention", "qwen3_moe_a", {}},
                    CacheCase{"windows", "gpt_oss_a", {}}, CacheCase{"latent", "deepseek_v2_a", {}},
                    CacheCase{"recurrent", "qwen3_next_a", {}},
                    CacheCase{"whole_layers", "qwen3_a", {"--layers-per-shard", "2"}},
                    CacheCase{"f16_graph", "qwen3_moe_a", {"--dtype", "f16"}},
                    CacheCase{"states", "qwen3_moe_a", {"--target", "ane"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Bytes of one more sequence.
uint64_t sequence_bytes(const Manifest& manifest, DType dtype) {
  return parts_beside_shards(manifest, {2, dtype}).caches -
         parts_beside_shards(manifest, {1, dtype}).caches;
}

TEST(CacheDtype, HalvesTheMemoryOfCaches) {
  const Session session = opened(export_golden_case("qwen3_moe_a"), DType::f16);
  const Manifest& manifest = session.manifest();
  EXPECT_EQ(2 * sequence_bytes(manifest, DType::f16), sequence_bytes(manifest, DType::f32));
  uint64_t stored = 0;
  for (const auto& [layer, cache] : session.empty_sequence().caches) {
    EXPECT_TRUE(cache.k.floats.empty() && cache.v.floats.empty()) << layer;
    stored += (cache.k.halves.size() + cache.v.halves.size()) * sizeof(uint16_t);
  }
  EXPECT_EQ(stored, sequence_bytes(manifest, DType::f16));
}

TEST(CacheDtype, KeepsRecurrentStatesF32) {
  Session session = opened(export_golden_case("qwen3_next_a"), DType::f16);
  size_t states = 0;
  for (const auto& [layer, cache] : session.empty_sequence().caches) states += cache.state.size();
  EXPECT_GT(states, 0u);
}

uint64_t reported_caches(const std::string& out, const Words& flags) {
  Words words = {"run", out, "--prompt-tokens", "1,2", "-n", "2", "--json"};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = run_command(words);
  expect_fine(outcome);
  const json report = json::parse(outcome.out);
  for (const json& part : report["memory"]["parts"])
    if (part["what"] == "caches") return part["bytes"];
  return 0;
}

TEST(CacheDtype, ReportsTheMemoryOfARun) {
  const std::string out = export_golden_case("qwen3_moe_a");
  const Manifest manifest = opened(out, DType::f32).manifest();
  EXPECT_EQ(reported_caches(out, {}) - reported_caches(out, {"--cache-dtype", "f16"}),
            sequence_bytes(manifest, DType::f16));
}

TEST(CacheDtype, RequiresEngineCpu) {
  const std::string out = export_golden_case("qwen3_moe_a");
  expect_error(Session::open(out, read_shard, {.cache_dtype = DType::f16}), "engine.option",
               "engine reference");
  const auto error_of = [&](Words words, const Words& flags) {
    words.insert(words.end(), flags.begin(), flags.end());
    return run_command(words).err;
  };
  const Words run = {"run", out, "--prompt-tokens", "1"};
  EXPECT_THAT(error_of(run, {"--cache-dtype", "f16", "--engine", "reference"}),
              HasSubstr("pass --engine cpu"));
  EXPECT_THAT(error_of(run, {"--cache-dtype", "bf16"}), HasSubstr("cli.value"));
  const Words validate = {"validate", out, "--golden", source_path("tests/golden/qwen3_moe_a")};
  EXPECT_THAT(error_of(validate, {"--cache-dtype", "f16"}), HasSubstr("engine.option"));
  EXPECT_THAT(error_of(validate, {"--cache-dtype", "f16", "--engine", "cpu"}),
              testing::Not(HasSubstr("error")));
}

}  // namespace
}  // namespace moec
