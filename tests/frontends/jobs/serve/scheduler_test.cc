// Texts that share a session: each text equals that of a separate run, regardless of other texts
// and of reused caches.
#include "frontends/jobs/serve/scheduler.h"

#include <gmock/gmock.h>

#include "tests/byte_text.h"
#include "tests/frontends/jobs/serve/served_tinymoe.h"

namespace moec {
namespace {

using std::chrono::seconds;

std::vector<int64_t> alone(const std::string& out, const std::string& prompt, int64_t tokens) {
  Session session = served_session(out);
  const auto text = generate_text(session, encode_bytes(prompt), {.max_tokens = tokens});
  EXPECT_TRUE(text.has_value()) << render(text.error());
  return text->tokens;
}

struct Written {
  std::vector<int64_t> tokens;
  int64_t reused = 0;
  std::string error;
};

Written all_of(Ticket& ticket) {
  Written written;
  while (true) {
    const Ticket::News news = ticket.wait(seconds(60));
    written.tokens.insert(written.tokens.end(), news.tokens.begin(), news.tokens.end());
    if (news.error) written.error = news.error->front().code;
    if (news.over()) break;
  }
  written.reused = ticket.reused();
  return written;
}

Written write(Scheduler& scheduler, const std::string& prompt, int64_t tokens) {
  auto ticket = scheduler.submit(encode_bytes(prompt), {.max_tokens = tokens});
  EXPECT_TRUE(ticket.has_value());
  return all_of(**ticket);
}

TEST(Scheduler, MatchesSeparateRuns) {
  const std::string out = served_export();
  const std::vector<std::string> prompts = {"def a", "import ", "class B", "{\"x\": ", "1 + 2 = "};
  Scheduler scheduler(served_session(out), {.sequences = 3});
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (const std::string& prompt : prompts)
    tickets.push_back(*scheduler.submit(encode_bytes(prompt), {.max_tokens = 10}));
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(all_of(*tickets[i]).tokens, alone(out, prompts[i], 10)) << prompts[i];
}

TEST(Scheduler, ReusesACachedPrefix) {
  const std::string out = served_export();
  Scheduler scheduler(served_session(out), {.sequences = 2});
  const Written first = write(scheduler, "def main(", 8);
  EXPECT_EQ(first.reused, 0);
  const std::string longer = "def main(" + decode_bytes(first.tokens) + "\n    x";
  const Written second = write(scheduler, longer, 8);
  EXPECT_EQ(second.reused, 9 + 8 - 1) << "the last generated token is not cached";
  EXPECT_EQ(second.tokens, alone(out, longer, 8));
  const Written third = write(scheduler, "def maze", 8);
  EXPECT_EQ(third.reused, 6) << "\"def ma\"";
  EXPECT_EQ(third.tokens, alone(out, "def maze", 8));
}

TEST(Scheduler, SeparatesTextsWithShortCommonPrefix) {
  const std::string out = served_export();
  Scheduler scheduler(served_session(out), {.sequences = 2});
  const std::string a = "user: import os, sys", b = "user: class Beta(Alpha)";
  write(scheduler, a, 4);
  const Written first = write(scheduler, b, 4);
  EXPECT_EQ(first.reused, 6) << "\"user: \", of a copy";
  EXPECT_EQ(first.tokens, alone(out, b, 4));
  EXPECT_EQ(write(scheduler, a, 4).reused, std::ssize(a) - 1);
  EXPECT_EQ(write(scheduler, b, 4).reused, std::ssize(b) - 1);
}

TEST(Scheduler, RecomputesLastTokenOfRepeatedTexts) {
  const std::string out = served_export();
  Scheduler scheduler(served_session(out), {.sequences = 1});
  const Written first = write(scheduler, "import os", 6);
  const Written again = write(scheduler, "import os", 6);
  EXPECT_EQ(again.reused, 8);
  EXPECT_EQ(again.tokens, first.tokens);
  const Written shorter = write(scheduler, "import", 6);
  EXPECT_EQ(shorter.reused, 5);
  EXPECT_EQ(shorter.tokens, alone(out, "import", 6));
}

TEST(Scheduler, RejectsTextsIfQueueIsFull) {
  Scheduler scheduler(served_session(served_export()), {.sequences = 1, .waiting = 1});
  std::vector<std::shared_ptr<Ticket>> tickets;
  std::string refused;
  for (int i = 0; i < 8 && refused.empty(); ++i) {
    auto ticket = scheduler.submit({1, 2, 3}, {.max_tokens = 40});
    if (ticket)
      tickets.push_back(*ticket);
    else
      refused = ticket.error().front().code;
  }
  EXPECT_EQ(refused, "serve.busy");
  for (const auto& ticket : tickets) EXPECT_EQ(all_of(*ticket).tokens.size(), 40u);
}

TEST(Scheduler, FreesTheSequenceAfterACancel) {
  Scheduler scheduler(served_session(served_export()), {.sequences = 1});
  const auto endless = *scheduler.submit({1}, {.max_tokens = 63});
  endless->wait(seconds(60));
  endless->cancel();
  EXPECT_LT(all_of(*endless).tokens.size(), 62u);
  EXPECT_EQ(write(scheduler, "def ", 3).tokens.size(), 3u);
}

TEST(Scheduler, FreesTheQueueAfterACancel) {
  Scheduler scheduler(served_session(served_export()), {.sequences = 1, .waiting = 1});
  const auto endless = *scheduler.submit({1}, {.max_tokens = 63});
  endless->wait(seconds(60));
  const auto leaving = *scheduler.submit({2}, {.max_tokens = 3});
  leaving->cancel();
  const auto next = scheduler.submit({3}, {.max_tokens = 3});
  ASSERT_TRUE(next) << render(next.error());
  endless->cancel();
  EXPECT_TRUE(all_of(*leaving).tokens.empty());
  EXPECT_EQ(all_of(**next).tokens.size(), 3u);
}

TEST(Scheduler, FinishesTicketsOnDestruction) {
  std::shared_ptr<Ticket> ticket;
  {
    Scheduler scheduler(served_session(served_export()), {.sequences = 1});
    ticket = *scheduler.submit({1}, {.max_tokens = 63});
  }
  const Written written = all_of(*ticket);
  EXPECT_TRUE(written.error == "serve.stopping" || written.tokens.size() == 63u) << written.error;
}

TEST(Sequences, MatchColdSessionsAfterRewinding) {
  const std::string out = served_export();
  Session cold = served_session(out), warm = served_session(out);
  ASSERT_TRUE(warm.feed(encode_bytes("def main(argv):")));
  ASSERT_TRUE(warm.rewind(8));
  EXPECT_EQ(warm.position(), 8);
  ASSERT_TRUE(cold.feed(encode_bytes("def main")));
  EXPECT_EQ(warm.feed(encode_bytes("_loop"))->data, cold.feed(encode_bytes("_loop"))->data);
}

TEST(Sequences, CanBeSwappedInASession) {
  const std::string out = served_export();
  Session session = served_session(out), one = served_session(out);
  ASSERT_TRUE(session.feed(encode_bytes("import")));
  Sequence first = session.exchange(session.empty_sequence());
  EXPECT_EQ(session.position(), 0);
  ASSERT_TRUE(session.feed(encode_bytes("class A")));
  session.exchange(std::move(first));
  EXPECT_EQ(session.position(), 6);
  ASSERT_TRUE(one.feed(encode_bytes("import")));
  EXPECT_EQ(session.feed(encode_bytes(" re"))->data, one.feed(encode_bytes(" re"))->data);
}

}  // namespace
}  // namespace moec
