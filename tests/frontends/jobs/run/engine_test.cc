// How a session calls its engine, and options that are rejected for engines that cannot change
// graphs.
#include <gmock/gmock.h>

#include "backends/cpu/cpu_engine.h"
#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "ir/graph/port_names.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using testing::Each;
using testing::IsEmpty;

// Wraps the reference executor as an engine that cannot change graphs.
class PlainEngine : public Engine {
 public:
  const EngineTraits& traits() const override { return traits_; }
  Status accepts(const Manifest&, Precision precision) const override {
    if (precision == Precision::f32) return {};
    return fail("engine.precision", "no f16");
  }
  Result<std::unique_ptr<Executable>> compile(const ShardGraph& graph,
                                              const GraphOptions& options) override {
    ++compiled_;
    (graph.shard.routing ? of_routers_ : of_others_).push_back(options.watched);
    return reference_->compile(graph, options);
  }

  int compiled_ = 0;
  std::vector<std::vector<std::string>> of_routers_, of_others_;

 private:
  std::shared_ptr<Engine> reference_ = reference_engine(read_shard);
  EngineTraits traits_{.name = "plain"};
};

std::string small_export(const Words& flags = {}) {
  const std::string out = fresh_folder("engine");
  Words words = {"export", checkpoint_of("qwen3_moe_a"), "--out", out, "--quiet", "--tokens",
                 "1,8"};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(run_command(words));
  return out;
}

std::vector<float> logits_by(Session& session) {
  std::vector<float> all;
  for (const std::vector<int64_t>& tokens :
       {std::vector<int64_t>{3, 1, 4, 1, 5}, {9}, {2, 6}, {5}}) {
    const auto logits = session.feed(tokens);
    EXPECT_TRUE(logits.has_value()) << render(logits.error());
    if (logits) all.insert(all.end(), logits->data.begin(), logits->data.end());
  }
  return all;
}

TEST(Engine, RunsItsCompiledGraphs) {
  const std::string out = small_export();
  auto engine = std::make_shared<PlainEngine>();
  Session with = Session::open(out, read_shard, {.engine = engine}).value();
  Session without = Session::open(out, read_shard).value();
  EXPECT_EQ(logits_by(with), logits_by(without));
  EXPECT_EQ(with.engine().name, "plain");
  EXPECT_EQ(without.engine().name, "reference");
  EXPECT_EQ(engine->compiled_, 2 * std::ssize(with.manifest().shards)) << "each width once";
}

// Heads run for the last token alone, with the narrow graph, or not at all.
TEST(Engine, RunsHeadsForWantedLogitsOnly) {
  const std::string out = small_export();
  Session all = Session::open(out, read_shard).value();
  Session some = Session::open(out, read_shard).value();
  const std::vector<int64_t> first(11, 3), second = {1, 4, 1, 5};
  ASSERT_TRUE(all.feed(first));
  EXPECT_THAT(some.feed(first, {}, LogitsOf::none).value().data, IsEmpty());
  const Rows wanted = all.feed(second).value();
  const Rows found = some.feed(second, {}, LogitsOf::last).value();
  ASSERT_EQ(found.count(), 1);
  const auto last = wanted.row(3);
  EXPECT_THAT(found.data, testing::Pointwise(testing::FloatNear(1e-5F), last));
  EXPECT_EQ(all.position(), some.position());
  EXPECT_EQ(all.tokens_run(), some.tokens_run());
  const std::vector<int64_t> next = {9};
  EXPECT_EQ(some.feed(next).value().data, all.feed(next).value().data);
}

TEST(Engine, ReceivesWatchedValuesOnlyForRouters) {
  const std::string out = small_export();
  auto engine = std::make_shared<PlainEngine>();
  SessionOptions options{.engine = engine};
  options.watched = {kRoutingWeights};
  Session session = Session::open(out, read_shard, options).value();
  logits_by(session);
  EXPECT_THAT(engine->of_routers_, Each(options.watched));
  EXPECT_THAT(engine->of_others_, Each(IsEmpty()));
  EXPECT_FALSE(engine->of_routers_.empty() || engine->of_others_.empty());
}

TEST(Engine, ReceivesAllValuesOnRequest) {
  const std::string out = small_export();
  auto engine = std::make_shared<PlainEngine>();
  SessionOptions options{.engine = engine};
  options.watched = {""};
  Session session = Session::open(out, read_shard, options).value();
  logits_by(session);
  EXPECT_THAT(engine->of_routers_, Each(options.watched));
  EXPECT_THAT(engine->of_others_, Each(options.watched));
  EXPECT_FALSE(engine->of_others_.empty());
}

TEST(Engine, RejectsOptionsThatChangeGraphs) {
  const std::string out = small_export({"--routing", "host", "--experts-per-shard", "1"});
  const auto engine = std::make_shared<PlainEngine>();
  const auto refused = [&](const SessionOptions& options, const char* word) {
    expect_error(Session::open(out, read_shard, options), "engine.option", word);
  };
  SessionOptions masked{.engine = engine}, slots{.engine = engine}, maskable{.engine = engine};
  masked.expert_mask = "L0:0-4";
  slots.experts = ExpertStoreOptions{.capacity = 2};
  maskable.maskable = true;
  refused(masked, "--expert-mask");
  refused(slots, "--capacity");
  refused(maskable, "cache-aware routing");
  expect_error(Session::open(out, read_shard, {.engine = engine, .precision = Precision::f16}),
               "engine.precision", "");
}

TEST(Engine, ReportsAMissingOpenVino) {
  const std::string out = small_export();
  for (const char* command : {"run", "validate", "serve"}) {
    Words words = {command, out, "--engine", "openvino"};
    if (command == std::string_view("run")) words.insert(words.end(), {"--prompt-tokens", "1"});
    if (command == std::string_view("validate"))
      words.insert(words.end(), {"--golden", source_path("tests/golden/qwen3_moe_a")});
    const Outcome result = run_command(words);  // no module lies next to the test binary
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, testing::HasSubstr("error[engine.not_built]")) << command;
    EXPECT_THAT(result.err, testing::HasSubstr("MOEC_OPENVINO=ON")) << command;
  }
}

TEST(Engine, RejectsFlagsOfOtherEngines) {
  const std::string out = small_export();
  const auto error_of = [&](Words flags) {
    Words words = {"run", out, "--prompt-tokens", "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_command(words).err;
  };
  EXPECT_THAT(error_of({"--device", "CPU"}), testing::HasSubstr("cli.conflict"));
  EXPECT_THAT(error_of({"--engine", "reference", "--device", "GPU"}),
              testing::HasSubstr("engine.option"));
  EXPECT_THAT(error_of({"--engine", "reference", "--engine-cache"}),
              testing::HasSubstr("--engine-cache"));
  EXPECT_THAT(error_of({"--engine", "reference", "--activations", "int8"}),
              testing::HasSubstr("omit --activations int8"));
  EXPECT_THAT(error_of({"--engine", "onnxruntime"}), testing::HasSubstr("cli.value"));
}

TEST(Engine, AcceptsThreadsOnlyForCpu) {
  const std::string out = small_export();
  const auto run = [&](Words flags) {
    Words words = {"run", out, "--prompt-tokens", "1", "-n", "4", "--ignore-eos"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_command(words);
  };
  const Outcome one = run({"--threads", "1"}), all = run({});
  expect_fine(one);
  EXPECT_EQ(one.out, all.out);
  EXPECT_THAT(run({"--threads", "1", "--engine", "reference"}).err,
              testing::HasSubstr("engine reference has no option --threads"));
  EXPECT_EQ(run({"--threads", "0"}).exit_code, 2);
  EXPECT_EQ(run({"--threads", std::to_string(cpu_cores() + 1)}).exit_code, 2);
}

}  // namespace
}  // namespace moec
