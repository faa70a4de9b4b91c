// Sessions with expert slots: for any number of slots, the logits equal those of a session with all
// experts bit for bit, and no bytes of unselected experts are read.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/cpu/cpu_engine.h"
#include "backends/formats/read_shard.h"
#include "backends/manifest/manifest_file.h"
#include "backends/runtime/session/session.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;

std::string export_to(const std::string& golden, Words flags) {
  const std::string out = fresh_folder("out") + "/out";
  flags.insert(flags.end(), {"--context", "32", "--tokens", "1,4"});
  expect_fine(export_case(golden, out, flags));
  return out;
}

Session open_session(const std::string& folder, std::optional<ExpertStoreOptions> experts,
                     Precision precision = Precision::f32) {
  SessionOptions options;
  options.precision = precision;
  options.experts = std::move(experts);
  auto session = Session::open(folder, read_shard, options);
  EXPECT_TRUE(session) << render(session.error());
  return std::move(*session);
}

// Feeds a prompt in chunks, then tokens one by one.
Result<std::vector<float>> feed_all(Session& session) {
  const std::vector<int64_t> prompt = {3, 1, 4, 1, 5, 9, 2};
  MOEC_ASSIGN(const Rows first, session.feed(prompt));
  std::vector<float> logits = first.data;
  for (const int64_t token : {6, 5, 3, 5, 8}) {
    MOEC_ASSIGN(const Rows rows, session.feed(std::vector<int64_t>{token}));
    logits.insert(logits.end(), rows.data.begin(), rows.data.end());
  }
  return logits;
}

std::vector<float> logits_of(Session& session) {
  auto logits = feed_all(session);
  EXPECT_TRUE(logits) << render(logits.error());
  return logits ? *logits : std::vector<float>();
}

ExpertStoreOptions slots(int64_t capacity) { return {.capacity = capacity}; }

struct SlotsCase {
  const char* name;
  const char* golden;
  Words flags;
  Precision precision = Precision::f32;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const SlotsCase& c, std::ostream* out) { *out << c.name; }

// Two shards of nonconsecutive experts, so steps request experts out of numeric order.
std::string odd_and_even() {
  const std::string path = fresh_folder("groups") + "/groups.json";
  write_file(path, R"({"groups": [{"name": "even", "experts": "*:0,2,4,6,8,10,12,14"},
                                  {"name": "odd", "experts": "*:1,2,3,5,7,9,11,13,15"}]})");
  return path;
}

class ExpertSlots : public testing::TestWithParam<SlotsCase> {};

TEST_P(ExpertSlots, MatchAllExpertsBitForBit) {
  const std::string out = export_to(GetParam().golden, GetParam().flags);
  Session all = open_session(out, std::nullopt, GetParam().precision);
  const std::vector<float> wanted = logits_of(all);
  int64_t experts = 0;
  for (const manifest::Shard& shard : all.manifest().shards)
    if (shard.routing) experts = shard.routing->experts;
  ASSERT_GT(experts, 1);
  // The smallest and the largest capacities, and one in four of the others.
  for (int64_t capacity = 1; capacity <= experts; ++capacity) {
    if (capacity > 4 && capacity % 4 != 0 && capacity < experts - 1) continue;
    Session some = open_session(out, slots(capacity), GetParam().precision);
    EXPECT_EQ(logits_of(some), wanted) << capacity << " slots";
    EXPECT_EQ(some.experts()->capacity(), capacity);
    EXPECT_GT(some.experts()->counts().misses, 0);
  }
}

// Exports a checkpoint of seeded weights with expert matrices of 128 x `width` elements.
std::string seeded_export(int64_t width, Words flags) {
  const std::string folder = fresh_folder("seeded");
  auto config = nlohmann::json::parse(read_file(source_path("models/tinymoe/config.json")));
  config["num_hidden_layers"] = 2;
  config["num_local_experts"] = 4;
  config["moe_intermediate_size"] = width;
  write_file(folder + "/config.json", config.dump());
  const std::string out = folder + "/out";
  Words words = {"export",
                 folder + "/config.json",
                 "--seeded-weights",
                 "5",
                 "--out",
                 out,
                 "--tokens",
                 "1,4",
                 "--context",
                 "32",
                 "--routing",
                 "host",
                 "--experts-per-shard",
                 "1",
                 "--quiet"};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(run_command(words));
  return out;
}

// Kernels of the engine multiply the same codes in slots as in mapped files.
TEST(ExpertSlotsOnCpu, MatchAllExpertsBitForBit) {
  for (const int64_t width : {64, 160})
    for (const Words& flags : {Words{"--weights", "experts=int4"},
                               Words{"--weights", "experts=int8:32", "--form", "matmul"},
                               Words{"--weights", "4bit", "--target", "ane"}}) {
      const std::string out = seeded_export(width, flags);
      for (const ActivationFormat format : {ActivationFormat::f32, ActivationFormat::int8}) {
        SessionOptions options{.engine = cpu_engine(read_shard, 2, format)};
        Session all = Session::open(out, read_shard, options).value();
        options.experts = slots(2);
        Session some = Session::open(out, read_shard, options).value();
        EXPECT_EQ(logits_of(some), logits_of(all))
            << width << " " << flags[1] << " " << (format == ActivationFormat::int8);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, ExpertSlots,
    testing::Values(
        SlotsCase{"tinymoe", "tinymoe", {"--experts-per-shard", "4"}},
        SlotsCase{"tinymoe_alone", "tinymoe", {"--experts-per-shard", "1"}},
        SlotsCase{"qwen3_f16", "qwen3_moe_a", {"--experts-per-shard", "3", "--dtype", "f16"}},
        SlotsCase{"gpt_oss", "gpt_oss_a", {"--experts-per-shard", "2"}},
        SlotsCase{"gpt_oss_alone", "gpt_oss_a", {"--experts-per-shard", "1"}},
        SlotsCase{"deepseek_v3", "deepseek_v3_a", {"--experts-per-shard", "4"}},
        SlotsCase{"llama4", "llama4_text_a", {"--experts-per-shard", "2"}},
        SlotsCase{"olmoe_matmul", "olmoe_a", {"--experts-per-shard", "4", "--form", "matmul"}},
        SlotsCase{"host_routing", "mixtral_a", {"--routing", "host"}},
        SlotsCase{"int8", "qwen2_moe_a", {"--experts-per-shard", "3", "--weights", "experts=int8"}},
        SlotsCase{"int4_matmul",
                  "tinymoe",
                  {"--experts-per-shard", "8", "--form", "matmul", "--weights", "experts=int4:32"}},
        SlotsCase{"core_ml_f16",
                  "qwen3_moe_a",
                  {"--target", "ane", "--experts-per-shard", "3"},
                  Precision::f16},
        SlotsCase{
            "palettes",
            "qwen3_moe_a",
            {"--target", "ane", "--experts-per-shard", "2", "--weights", "experts=int4-lut:g8"}},
        SlotsCase{"core_ml_biases", "gpt_oss_b", {"--target", "ane", "--routing", "host"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ExpertStore, KeepsLogitsForNonconsecutiveExperts) {
  const std::string out = export_to("tinymoe", {"--expert-groups", odd_and_even()});
  Session all = open_session(out, std::nullopt);
  const std::vector<float> wanted = logits_of(all);
  for (const int64_t capacity : {1, 2, 5, 16}) {
    Session some = open_session(out, slots(capacity));
    EXPECT_EQ(logits_of(some), wanted) << capacity << " slots";
  }
}

TEST(ExpertStore, KeepsLogitsForAllPolicies) {
  const std::string out = export_to("tinymoe", {"--experts-per-shard", "4"});
  Session all = open_session(out, std::nullopt);
  const std::vector<float> wanted = logits_of(all);
  for (const PolicyKind policy :
       {PolicyKind::lru, PolicyKind::lfu, PolicyKind::lcp, PolicyKind::pinned})
    for (const ExpertReads reads :
         {ExpertReads::serial, ExpertReads::ahead, ExpertReads::prefetch}) {
      ExpertStoreOptions options{.capacity = 5, .policy = policy, .reads = reads};
      for (int64_t layer = 0; layer < 4; ++layer)
        for (int64_t expert = 0; expert < 16; ++expert) options.pinned.push_back({layer, expert});
      Session some = open_session(out, options);
      EXPECT_EQ(logits_of(some), wanted) << enum_name(policy) << " " << enum_name(reads);
      const ExpertStoreCounts counts = some.experts()->counts();
      EXPECT_EQ(counts.prefetched > 0, reads == ExpertReads::prefetch);
    }
}

// Returns the weight bytes of one expert of a layer.
uint64_t expert_bytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const WeightRecord& weight : manifest.find_shard("L00.moe.g0")->weights)
    if (weight.role == WeightRole::expert && weight.first_expert == 0)
      for (const WeightRange& range : weight.ranges) bytes += static_cast<uint64_t>(range.bytes);
  return bytes;
}

TEST(ExpertStore, ReadsSelectedExpertsOnce) {
  const std::string out = export_to("tinymoe", {"--target", "ane", "--experts-per-shard", "4"});
  Session session = open_session(out, slots(16));
  logits_of(session);
  const ExpertStoreCounts first = session.experts()->counts();
  const auto bytes = static_cast<double>(expert_bytes(session.manifest()));
  // The headers of two blobs lie between the expert's weights.
  EXPECT_NEAR(static_cast<double>(first.bytes_read) / static_cast<double>(first.misses), bytes,
              256);
  EXPECT_LT(first.misses, 4 * 16);
  session.reset();
  logits_of(session);
  const ExpertStoreCounts second = session.experts()->counts();
  EXPECT_EQ(second.bytes_read, first.bytes_read);
  EXPECT_EQ(second.misses, first.misses);
  EXPECT_GT(second.hits, first.hits);
}

Rows chosen(int64_t experts, const std::vector<std::pair<int64_t, float>>& weights) {
  Rows rows{experts, std::vector<float>(static_cast<size_t>(experts))};
  for (const auto& [expert, weight] : weights) rows.data[static_cast<size_t>(expert)] = weight;
  return rows;
}

std::unique_ptr<ExpertStore> open_store(const std::string& out, const ExpertStoreOptions& options) {
  auto store = ExpertStore::open(read_manifest(out).value(), out, options);
  EXPECT_TRUE(store) << render(store.error());
  return std::move(*store);
}

// Two slots contain experts 0 and 1; then a token selects 0, 2 and 3.
Rows skipped_weights(const std::string& golden, ExpertStoreCounts& counts) {
  const std::string out = export_to(golden, {"--experts-per-shard", "2"});
  const auto store = open_store(out, {.capacity = 2, .on_miss = OnMiss::skip});
  const int64_t experts = read_manifest(out)->find_shard("L00.router")->routing->experts;
  Rows first = chosen(experts, {{0, 0.5F}, {1, 0.25F}}), second = first;
  EXPECT_TRUE(store->begin_layer(0, first));
  EXPECT_EQ(first.data, second.data);
  second = chosen(experts, {{0, 0.25F}, {2, 0.125F}, {3, 0.125F}});
  EXPECT_TRUE(store->begin_layer(0, second));
  counts = store->counts();
  return second;
}

TEST(ExpertStore, ReadsNeighboursInOneCall) {
  const std::string out = export_to("tinymoe", {"--experts-per-shard", "16"});
  const auto store = open_store(out, {.capacity = 16});
  std::vector<std::pair<int64_t, float>> all;
  for (int64_t expert = 0; expert < 16; ++expert) all.emplace_back(expert, 0.0625F);
  Rows weights = chosen(16, all);
  ASSERT_TRUE(store->begin_layer(0, weights));
  const ExpertStoreCounts counts = store->counts();
  EXPECT_EQ(counts.misses, 16);
  // The experts follow one another in the file, and a call reads up to 1 MiB.
  const auto calls = static_cast<double>(counts.read_calls);
  EXPECT_GE(calls, static_cast<double>(counts.bytes_read) / (1 << 20));
  EXPECT_LT(counts.read_calls, 16);
}

TEST(ExpertStore, PrefetchesSeveralLayersAhead) {
  const std::string out = export_to("tinymoe", {"--experts-per-shard", "4"});
  const auto store = open_store(out, {.capacity = 2, .reads = ExpertReads::prefetch});
  ASSERT_EQ(store->prefetch_depth(), PrefetchDepth::kMost);
  Rows now = chosen(16, {{0, 0.5F}});
  ASSERT_TRUE(store->begin_layer(0, now));
  store->prefetch(1, chosen(16, {{1, 0.5F}}), 1);
  store->prefetch(3, chosen(16, {{2, 0.5F}, {3, 0.5F}}), 3);
  EXPECT_TRUE(store->holds({1, 1}) && store->holds({3, 2}) && store->holds({3, 3}));
  EXPECT_FALSE(store->holds({2, 0}));
  // Layer 3 uses one of the two experts.
  Rows later = chosen(16, {{3, 0.5F}, {4, 0.5F}});
  ASSERT_TRUE(store->begin_layer(3, later));
  EXPECT_EQ(store->counts().prefetched, 1);
  EXPECT_EQ(store->counts().in_vain, 1);
}

TEST(ExpertStore, RedistributesSkippedWeightsIfNormalized) {
  ExpertStoreCounts counts;
  const Rows weights = skipped_weights("mixtral_a", counts);
  EXPECT_EQ(weights.data, chosen(weights.columns, {{0, 0.5F}}).data);
  EXPECT_EQ(counts.skipped, 2);
  EXPECT_DOUBLE_EQ(counts.dropped, 0.25);
  EXPECT_DOUBLE_EQ(counts.dropped_share(), 0.2);
}

TEST(ExpertStore, DropsSkippedWeightsWithoutNormalization) {
  ExpertStoreCounts counts;
  const Rows weights = skipped_weights("olmoe_a", counts);
  EXPECT_EQ(weights.data, chosen(weights.columns, {{0, 0.25F}}).data);
  EXPECT_EQ(counts.skipped, 2);
}

// A skipped expert is loaded for later steps and replaces an expert that the step did not need.
TEST(ExpertStore, LoadsSkippedExpertsLater) {
  const std::string out = export_to("olmoe_a", {"--experts-per-shard", "2"});
  const auto store = open_store(out, {.capacity = 2, .on_miss = OnMiss::skip});
  for (const int64_t missing : {2, 3, 2}) {
    Rows rows = chosen(5, {{0, 0.5F}, {1, 0.25F}}), more = chosen(5, {{0, 0.5F}, {missing, 0.25F}});
    ASSERT_TRUE(store->begin_layer(0, rows));
    ASSERT_TRUE(store->begin_layer(0, more));
    EXPECT_EQ(more.data, chosen(5, {{0, 0.5F}}).data);
    more = chosen(5, {{0, 0.5F}, {missing, 0.25F}});
    ASSERT_TRUE(store->begin_layer(0, more));
    EXPECT_EQ(more.data, chosen(5, {{0, 0.5F}, {missing, 0.25F}}).data);
  }
}

TEST(ExpertStore, SkipsIndependentlyOfReadSpeed) {
  const std::string out = export_to("tinymoe", {"--experts-per-shard", "1"});
  const auto skipping = [&](ExpertReads reads) {
    Session session = open_session(
        out, ExpertStoreOptions{.capacity = 6, .on_miss = OnMiss::skip, .reads = reads});
    std::vector<float> logits = logits_of(session);
    EXPECT_GT(session.experts()->counts().skipped, 0);
    return logits;
  };
  const std::vector<float> serial = skipping(ExpertReads::serial);
  for (int run = 0; run < 4; ++run) EXPECT_EQ(skipping(ExpertReads::ahead), serial) << run;
}

TEST(ExpertStore, RejectsUnknownPinnedExperts) {
  const std::string out = export_to("olmoe_a", {"--experts-per-shard", "2"});
  const auto session =
      Session::open(out, read_shard,
                    {.experts = ExpertStoreOptions{
                         .capacity = 3, .policy = PolicyKind::pinned, .pinned = {{0, 99}}}});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().front().code, "session.profile");
}

TEST(ExpertStore, StopsAtAMissingExpert) {
  const std::string out = export_to("olmoe_a", {"--experts-per-shard", "2"});
  const auto store = open_store(out, {.capacity = 2, .on_miss = OnMiss::stop});
  Rows both = chosen(5, {{0, 0.5F}, {1, 0.25F}}), other = chosen(5, {{3, 0.5F}});
  EXPECT_TRUE(store->begin_layer(0, both));
  const Status stopped = store->begin_layer(0, other);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().front().code, "session.expert_missing");
  EXPECT_THAT(stopped.error().front().cause, HasSubstr("expert 3 of layer 0"));
}

std::string refusal(const std::string& golden, const Words& flags,
                    const ExpertStoreOptions& options) {
  const std::string out = export_to(golden, flags);
  const auto store = ExpertStore::open(read_manifest(out).value(), out, options);
  return store ? "" : store.error().front().code;
}

TEST(ExpertStore, RequiresSeparateExperts) {
  EXPECT_EQ(refusal("mixtral_a", {}, slots(1)), "session.routers");
  EXPECT_EQ(refusal("mixtral_a", {"--layers-per-shard", "1"}, slots(1)), "session.routers");
  EXPECT_EQ(refusal("mixtral_a", {"--experts-per-shard", "2", "--experts", "bank"}, slots(1)),
            "session.bank");
  EXPECT_EQ(refusal("mixtral_a", {"--experts-per-shard", "2", "--routing", "op"}, slots(1)),
            "session.bank");
  EXPECT_EQ(refusal("mixtral_a", {"--experts-per-shard", "2"}, {.memory_bytes = 4096}),
            "session.capacity");
}

// An upcycled model starts with equal experts, whose shards are equal files.
TEST(ExpertSlots, AcceptDuplicateExperts) {
  const std::string folder = fresh_folder("twins"), model = folder + "/model",
                    out = folder + "/out";
  expect_fine(run_command({"upcycle", checkpoint_of("mistral_a"), "--out", model, "--experts", "4",
                           "--top-k", "2", "--init", "copy", "--quiet"}));
  expect_fine(run_command({"export", model, "--out", out, "--experts-per-shard", "1", "--context",
                           "32", "--tokens", "1,4", "--quiet"}));
  Session all = open_session(out, std::nullopt), some = open_session(out, slots(2));
  EXPECT_EQ(logits_of(all), logits_of(some));
}

TEST(ExpertPlaces, RejectOverlappingBytes) {
  const std::string out = export_to("mixtral_a", {"--experts-per-shard", "2"});
  Manifest manifest = read_manifest(out).value();
  EXPECT_TRUE(ExpertPlaces::find(manifest, out));
  for (manifest::Shard& shard : manifest.shards)
    for (WeightRecord& weight : shard.weights)
      if (weight.role == WeightRole::expert) weight.ranges.front().offset = 65536;
  const auto places = ExpertPlaces::find(manifest, out);
  ASSERT_FALSE(places);
  EXPECT_EQ(places.error().front().code, "session.bank");
}

// Feeds tokens, calls `change` after the first one, and returns the code of the resulting error.
template <class Change>
std::string code_after(const std::string& out, Change change) {
  Session session = open_session(out, slots(1));
  const std::vector<int64_t> token = {3};
  EXPECT_TRUE(session.feed(token));
  change();
  for (int i = 0; i < 4; ++i)
    if (const auto logits = session.feed(token); !logits) return logits.error().front().code;
  return "";
}

TEST(ExpertStore, DetectsAChangedFile) {
  const std::string out = export_to("tinymoe", {"--experts-per-shard", "4"});
  const std::string file = out + "/" + read_manifest(out)->find_shard("L01.moe.g3")->data[0].path;
  EXPECT_EQ(code_after(out, [] {}), "");
  const auto touch = [&] {
    std::fstream(file, std::ios::binary | std::ios::in | std::ios::out) << "x";
  };
  EXPECT_EQ(code_after(out, touch), "weights.file_changed");
  EXPECT_EQ(code_after(out, [&] { std::filesystem::resize_file(file, 70000); }),
            "weights.file_changed");
}

TEST(RunExperts, PrintsSlotCounts) {
  const std::string out = fresh_folder("out") + "/out";
  expect_fine(export_case("tinymoe", out, {"--experts-per-shard", "4"}));
  const Words run = {"run", out, "--prompt", "def ", "-n", "8"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), run.begin(), run.end());
    return run_command(more);
  };
  const Outcome all = run_command(run), some = with({"--capacity", "3", "--memory-report"});
  EXPECT_EQ(some.out, all.out);
  EXPECT_THAT(some.err, HasSubstr("[experts: 3 per layer in "));
  EXPECT_THAT(some.err, HasSubstr("slots of experts, 3 per layer"));
  EXPECT_THAT(with({"--expert-memory", "2MB", "--policy", "lcp", "--json"}).out,
              HasSubstr("\"capacity\": 2"));
  EXPECT_THAT(with({"--capacity", "3", "--on-miss", "stop"}).err,
              HasSubstr("session.expert_missing"));
  EXPECT_THAT(with({"--capacity", "3", "--on-miss", "skip"}).err,
              HasSubstr("of the routing weight"));
  EXPECT_THAT(with({"--policy", "lcp"}).err, HasSubstr("run.flags"));
  EXPECT_THAT(with({"--capacity", "3", "--policy", "pinned"}).err, HasSubstr("run.flags"));
  EXPECT_EQ(with({"--capacity", "3", "--expert-memory", "2MB"}).exit_code, kExitBadInput);
}

}  // namespace
}  // namespace moec
