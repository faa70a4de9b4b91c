// Texts that continue with another session of the same trunk.
#include <gmock/gmock.h>

#include "backends/manifest/manifest_file.h"
#include "frontends/jobs/serve/reload_check.h"
#include "frontends/jobs/serve/scheduler.h"
#include "tests/byte_text.h"
#include "tests/frontends/jobs/serve/served_tinymoe.h"

namespace moec {
namespace {

constexpr const char* kLow = "*:0-7";
constexpr const char* kHigh = "*:8-15";

Session masked_session(const std::string& out, const std::string& mask) {
  SessionOptions options;
  options.expert_mask = mask;
  auto session = Session::open(out, read_shard, options);
  EXPECT_TRUE(session.has_value()) << render(session.error());
  return std::move(*session);
}

// Writes a text with the experts `kLow`, and with `kHigh` after the first `before` tokens.
std::vector<int64_t> text_across(const std::string& out, const std::string& prompt, int64_t tokens,
                                 int64_t before) {
  Session low = masked_session(out, kLow), high = masked_session(out, kHigh);
  TextWriter writer(encode_bytes(prompt), 0, low.manifest(), {.max_tokens = tokens});
  bool changed = false;
  while (!writer.done()) {
    if (!changed && std::ssize(writer.text().tokens) == before) {
      high.exchange(low.exchange(low.empty_sequence()));
      changed = true;
    }
    const auto token = writer.step(changed ? high : low);
    EXPECT_TRUE(token.has_value()) << render(token.error());
  }
  return writer.text().tokens;
}

struct Finished {
  std::vector<int64_t> tokens;
  int64_t reused = 0;
};

Finished finished(Ticket& ticket) {
  Finished text;
  while (true) {
    const Ticket::News news = ticket.wait(std::chrono::seconds(60));
    text.tokens.insert(text.tokens.end(), news.tokens.begin(), news.tokens.end());
    EXPECT_FALSE(news.error) << render(*news.error);
    if (news.over()) break;
  }
  text.reused = ticket.reused();
  return text;
}

Finished finished(Scheduler& scheduler, const std::string& prompt, int64_t tokens) {
  return finished(**scheduler.submit(encode_bytes(prompt), {.max_tokens = tokens}));
}

TEST(ReplaceSession, ContinuesTextsWithTheirCaches) {
  const std::string out = served_export(), prompt = "def a";
  constexpr int64_t kTokens = 40;
  Scheduler scheduler(masked_session(out, kLow), {.sequences = 2});
  const auto ticket = *scheduler.submit(encode_bytes(prompt), {.max_tokens = kTokens});
  const std::vector<int64_t> first = ticket->wait(std::chrono::seconds(60)).tokens;
  ASSERT_TRUE(scheduler.replace(masked_session(out, kHigh)));
  EXPECT_EQ(to_string(scheduler.own_experts()), "L0-3:8-15");
  Finished rest = finished(*ticket);
  std::vector<int64_t> tokens = first;
  tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
  // The step of the change depends on the threads.
  int64_t before = std::ssize(first);
  while (before <= kTokens && tokens != text_across(out, prompt, kTokens, before)) ++before;
  EXPECT_LE(before, kTokens) << "no step of the change explains the text";
  EXPECT_EQ(finished(scheduler, prompt, 10).tokens, text_across(out, prompt, 10, 0));
}

TEST(ReplaceSession, ForgetsEarlierPrefixes) {
  const std::string out = served_export();
  Scheduler scheduler(masked_session(out, kLow), {.sequences = 2});
  finished(scheduler, "def main(", 8);
  ASSERT_TRUE(scheduler.replace(masked_session(out, kHigh)));
  const Finished text = finished(scheduler, "def main(", 8);
  EXPECT_EQ(text.reused, 0);
  EXPECT_EQ(text.tokens, text_across(out, "def main(", 8, 0));
  EXPECT_EQ(finished(scheduler, "def main(", 8).reused, 8);
}

TEST(ReplaceSession, ForgetsTextsInProgress) {
  const std::string out = served_export();
  Scheduler scheduler(masked_session(out, kLow), {.sequences = 2});
  const auto ticket = *scheduler.submit(encode_bytes("def main("), {.max_tokens = 40});
  ticket->wait(std::chrono::seconds(60));
  ASSERT_TRUE(scheduler.replace(masked_session(out, kHigh)));
  finished(*ticket);
  EXPECT_EQ(finished(scheduler, "def main(", 8).reused, 0);
}

TEST(ReplaceSession, KeepsPrefixesOfEqualSessions) {
  const std::string out = served_export();
  Scheduler scheduler(masked_session(out, kLow), {.sequences = 2});
  const std::vector<int64_t> tokens = finished(scheduler, "def main(", 8).tokens;
  ASSERT_TRUE(scheduler.replace(masked_session(out, kLow)));
  const Finished text = finished(scheduler, "def main(", 8);
  EXPECT_EQ(text.reused, 8);
  EXPECT_EQ(text.tokens, tokens);
}

TEST(ReplaceSession, FailsAfterTheEnd) {
  const std::string out = served_export();
  Scheduler scheduler(masked_session(out, kLow), {.sequences = 1});
  scheduler.stop();
  const Status replaced = scheduler.replace(masked_session(out, kHigh));
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().front().code, "serve.stopping");
}

// Each change makes the caches or the tokens of texts in progress meaningless.
TEST(ReloadCheck, RejectsOtherTrunks) {
  const auto manifest = read_manifest(served_export());
  ASSERT_TRUE(manifest) << render(manifest.error());
  EXPECT_TRUE(check_reload(*manifest, *manifest));
  EXPECT_TRUE(same_results(*manifest, *manifest));
  const std::vector<void (*)(Manifest&)> changes = {
      [](Manifest& m) { m.model.vocab += 1; },
      [](Manifest& m) { m.build.context += 1; },
      [](Manifest& m) { m.build.tokens.push_back(99); },
      [](Manifest& m) { m.caches.front().rows += 1; },
      [](Manifest& m) { m.embedding.file.digest = "other"; },
      [](Manifest& m) { m.carried.push_back({"tokenizer.json"}); },
      [](Manifest& m) { m.logits.vocab += 1; },
      [](Manifest& m) { m.top_k.emplace(); },
      [](Manifest& m) { m.shards.front().widths.front().file.digest = "other"; },
      [](Manifest& m) { m.shards.erase(m.shards.begin()); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    Manifest other = *manifest;
    changes[i](other);
    const Status checked = check_reload(*manifest, other);
    ASSERT_FALSE(checked) << i;
    EXPECT_EQ(checked.error().front().code, "serve.reload");
  }
}

TEST(ReloadCheck, AcceptsOtherExperts) {
  const auto manifest = read_manifest(served_export());
  ASSERT_TRUE(manifest) << render(manifest.error());
  Manifest other = *manifest;
  other.build.expert_mask = kLow;
  EXPECT_TRUE(check_reload(*manifest, other));
  EXPECT_FALSE(same_results(*manifest, other));
  other = *manifest;
  other.node = manifest::Node{"node0", "L0-3:0-7", 0, 1, 0, manifest->model.layers};
  EXPECT_TRUE(check_reload(*manifest, other));
  EXPECT_FALSE(same_results(*manifest, other));
}

}  // namespace
}  // namespace moec
