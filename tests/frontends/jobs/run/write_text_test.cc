// Generates texts and labels spans with an export, without using the command line.
#include "backends/runtime/text/write_text.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/formats/read_shard.h"
#include "frontends/jobs/run/run_report.h"
#include "tests/byte_text.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

Session session_of(const std::string& golden_case, const Words& flags = {}) {
  const std::string out = fresh_folder(golden_case);
  expect_fine(export_case(golden_case, out, flags));
  return Session::open(out, read_shard, {}).value();
}

TEST(WriteText, PrintsPromptAndText) {
  Session session = session_of("tinymoe");
  const Prompt prompt = prompt_of_text("def ", session.manifest(), byte_tokenizer()).value();
  const Tokenizer bytes = Tokenizer::bytes();
  TextDecoder decoder(&bytes);
  std::string shown;
  const auto text = write_text(session, prompt, {.generate = {.max_tokens = 5}},
                               [&](int64_t token) { shown += decoder.add(token).value(); });
  ASSERT_TRUE(text.has_value()) << render(text.error());
  const nlohmann::ordered_json json = text_json(prompt, *text, session, &bytes).value();
  EXPECT_EQ(shown, "def " + json["text"].get<std::string>());
  EXPECT_EQ(json["tokens"].size(), 5u);
  EXPECT_EQ(json["stopped_by"], "max_tokens");
}

TEST(GenerateText, RefusesUndefinedLogits) {
  Session session = session_of("tinymoe");
  const std::vector<int64_t> prompt = encode_bytes("def ");
  ASSERT_TRUE(generate_text(session, prompt, {.max_tokens = 2}));
  std::ranges::fill(session.cache(0).v.floats, std::numeric_limits<float>::quiet_NaN());
  const auto text = generate_text(session, prompt, {.max_tokens = 2});
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error()[0].code, "text.undefined_logits");
  EXPECT_THAT(text.error()[0].cause, testing::HasSubstr("after 0 generated tokens"));
}

TEST(LabelText, RedactsOnlyTexts) {
  Session session = session_of("tinytagger", {"--tokens", "8"});
  const Prompt tokens =
      prompt_of_tokens("tokens", {67, 97, 108, 108, 32, 65, 110, 110}, session.manifest()).value();
  EXPECT_TRUE(label_text(session, tokens, false).has_value());
  EXPECT_EQ(label_text(session, tokens, true).error()[0].code, "run.no_text");
  const Prompt text = prompt_of_text("Call Ann", session.manifest(), byte_tokenizer()).value();
  const auto tagged = label_text(session, text, true);
  ASSERT_TRUE(tagged.has_value()) << render(tagged.error());
  const nlohmann::ordered_json json = spans_json(text, *tagged, true, session);
  EXPECT_EQ(json["redacted"], redact("Call Ann", tagged->spans));
  EXPECT_EQ(json["spans"].size(), tagged->spans.size());
  EXPECT_EQ(json["engine"], session.engine().name);
  EXPECT_GT(json["memory"]["peak_bytes"], 0);
}

TEST(GateLog, HasOneRowPerSelectedExpert) {
  const std::string out = fresh_folder("out"), log = fresh_folder("log") + "/gates.csv";
  expect_fine(export_case("tinymoe", out, {"--tokens", "1,4"}));
  const Words run = {"run", out,           "--prompt", "defin",        "-n",
                     "3",   "--log-gates", log,        "--log-layers", "1-2,3"};
  expect_fine(run_command(run));
  std::istringstream rows(read_file(log));
  std::string line;
  std::getline(rows, line);
  EXPECT_EQ(line, "layer,token,expert,weight");
  // per layer and token: number of experts, sum of weights
  std::map<std::pair<int, int>, std::pair<int, double>> tokens;
  std::vector<std::pair<int, int>> order;
  int layer = 0, token = 0, expert = 0;
  double weight = 0;
  while (std::getline(rows, line)) {
    ASSERT_EQ(std::sscanf(line.c_str(), "%d,%d,%d,%lf", &layer, &token, &expert, &weight), 4);
    EXPECT_LT(expert, 16);
    auto& [experts, sum] = tokens[{layer, token}];
    if (++experts == 1) order.emplace_back(layer, token);
    sum += weight;
  }
  // The prompt in chunks of 4 and 1, followed by two of the three generated tokens.
  EXPECT_EQ(tokens.size(), 3U * 7);
  for (const auto& [of, experts] : tokens) {
    EXPECT_EQ(experts.first, 2);
    EXPECT_NEAR(experts.second, 1, 1e-6);
  }
  const std::vector<std::pair<int, int>> first = {{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0}};
  EXPECT_TRUE(std::equal(first.begin(), first.end(), order.begin()));
  EXPECT_EQ(order[12], std::pair(1, 4));
}

TEST(GateLog, RejectsInvalidLayersAndFolders) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out));
  const auto error = [&](const std::string& log, const std::string& layers) {
    return run_command(
               {"run", out, "--prompt", "a", "-n", "1", "--log-gates", log, "--log-layers", layers})
        .err;
  };
  const std::string logs = fresh_folder("logs");
  EXPECT_THAT(error(logs + "/gates.csv", "2-4"),
              testing::HasSubstr("[experts.layer]: --log-layers: '2-4' names no layers"));
  EXPECT_THAT(error(logs + "/none/gates.csv", "2"), testing::HasSubstr("[trace.write]"));
}

}  // namespace
}  // namespace moec
