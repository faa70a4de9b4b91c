// Texts and spans of an export without a command line.
#include "frontends/run/write_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "frontends/formats/read_shard.h"
#include "frontends/run/label_text.h"
#include "frontends/run/run_json.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

Session session_of(const std::string& golden_case, const Words& flags = {}) {
  const std::string out = fresh_folder(golden_case);
  expect_fine(export_case(golden_case, out, flags));
  return Session::open(out, read_shard, {}).value();
}

TEST(WriteText, ShowsThePromptAndTheText) {
  Session session = session_of("tinymoe");
  const Prompt prompt = prompt_of_text("def ", session.manifest()).value();
  std::string shown;
  const auto text =
      write_text(session, prompt, {.generate = {.max_tokens = 5}},
                 [&](int64_t token) { shown += token_text(session.manifest(), token); });
  ASSERT_TRUE(text.has_value()) << render(text.error());
  const nlohmann::ordered_json json = text_json(prompt, *text, session);
  EXPECT_EQ(shown, "def " + json["text"].get<std::string>());
  EXPECT_EQ(json["tokens"].size(), 5u);
  EXPECT_EQ(json["stopped_by"], "max_tokens");
}

TEST(WriteText, TokensThatAreNoBytesAreNumbers) {
  Session session = session_of("mixtral_a");
  EXPECT_FALSE(writes_bytes(session.manifest()));
  EXPECT_EQ(token_text(session.manifest(), 7), "7 ");
}

TEST(LabelText, OnlyATextCanBeRedacted) {
  Session session = session_of("tinytagger", {"--tokens", "8"});
  const Prompt tokens =
      prompt_of_tokens("tokens", {67, 97, 108, 108, 32, 65, 110, 110}, session.manifest()).value();
  EXPECT_TRUE(label_text(session, tokens, false).has_value());
  EXPECT_EQ(label_text(session, tokens, true).error()[0].code, "run.no_text");
  const Prompt text = prompt_of_text("Call Ann", session.manifest()).value();
  const auto tagged = label_text(session, text, true);
  ASSERT_TRUE(tagged.has_value()) << render(tagged.error());
  const nlohmann::ordered_json json = spans_json(text, *tagged, true);
  EXPECT_EQ(json["redacted"], redact("Call Ann", tagged->spans));
  EXPECT_EQ(json["spans"].size(), tagged->spans.size());
}

}  // namespace
}  // namespace moec
