// `moec run` with the trained models/tinytagger must find the same spans as PyTorch in held-out
// texts.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "backends/runtime/text/tag_text.h"
#include "tests/byte_text.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using nlohmann::json;

class TinyTagger : public testing::Test {
 protected:
  // Each test has its own folder, because tests run as parallel processes.
  void SetUp() override {
    folder_ = fresh_folder("out");
    expect_fine(run_command({"export", source_path("models/tinytagger"), "--out", folder_,
                             "--quiet", "--tokens", "320", "--context", "1024"}));
    texts_ = read_json(source_path("models/tinytagger/heldout.json")).at("texts");
  }

  json run(const std::string& text, Words more = {}) const {
    more.insert(more.begin(), {"run", folder_, "--prompt", text, "--json"});
    const Outcome outcome = run_command(more);
    expect_fine(outcome);
    return json::parse(outcome.out);
  }

  std::string folder_;
  json texts_;
};

using Span = std::tuple<int64_t, int64_t, std::string>;

std::set<Span> spans_of(const json& spans) {
  std::set<Span> all;
  for (const json& span : spans)
    all.emplace(span["start"].get<int64_t>(), span["end"].get<int64_t>(),
                span["label"].get<std::string>());
  return all;
}

// Errors state the length of the user's text, not of its windows.
TEST_F(TinyTagger, ReportsTheLengthOfLongTexts) {
  const Outcome outcome = run_command({"run", folder_, "--prompt", std::string(2201, 'a')});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              testing::HasSubstr("error[session.context_full]: the text of 2201 tokens "
                                 "exceeds the exported context of 1024"));
}

TEST_F(TinyTagger, MatchesSpansOfPyTorch) {
  size_t right = 0, found = 0, wanted = 0;
  for (const json& each : texts_) {
    const std::string text = each["text"];
    const json result = run(text);
    EXPECT_GT(result["windows"], 1) << text.size();
    const std::set<Span> spans = spans_of(result["spans"]), truth = spans_of(each["spans"]);
    EXPECT_EQ(spans, spans_of(each["found"]));
    for (const json& span : result["spans"]) {
      EXPECT_EQ(span["text"], text.substr(span["start"],
                                          span["end"].get<size_t>() - span["start"].get<size_t>()));
      EXPECT_GT(span["score"], 0.2);
      EXPECT_LE(span["score"], 1.0);
    }
    for (const Span& span : spans) right += truth.contains(span);
    found += spans.size();
    wanted += truth.size();
  }
  EXPECT_GE(wanted, 200u);
  EXPECT_GE(2 * static_cast<double>(right), 0.95 * static_cast<double>(found + wanted));
}

TEST_F(TinyTagger, RedactsAllFoundSpans) {
  const std::string text = texts_[0]["text"];
  const json result = run(text, {"--redact"});
  std::string wanted;
  size_t at = 0;
  for (const json& span : result["spans"]) {
    std::string label = span["label"];
    for (char& c : label) c = static_cast<char>(std::toupper(c));
    wanted += text.substr(at, span["start"].get<size_t>() - at) + "<" + label + ">";
    at = span["end"];
  }
  wanted += text.substr(at);
  EXPECT_EQ(result["redacted"], wanted);
  const std::string file = fresh_folder("text") + "/text.txt";
  std::ofstream(file) << text;
  const Outcome plain = run_command({"run", folder_, "--prompt-file", file, "--redact"});
  expect_fine(plain);
  EXPECT_EQ(plain.out, wanted);
}

TEST_F(TinyTagger, FindsNoSpansInEmptyText) {
  EXPECT_TRUE(run("", {})["spans"].empty());
  const std::string file = fresh_folder("text") + "/text.txt";
  std::ofstream(file).flush();
  const Outcome plain = run_command({"run", folder_, "--prompt-file", file, "--redact"});
  expect_fine(plain);
  EXPECT_EQ(plain.out, "");
  EXPECT_THAT(run_command({"run", folder_}).err, testing::HasSubstr("run.no_prompt"));
}

TEST_F(TinyTagger, MatchesOnePassWithWindows) {
  const std::string whole = fresh_folder("whole"), text = texts_[0]["text"];
  const std::string start = text.substr(0, 480);
  expect_fine(run_command({"export", source_path("models/tinytagger"), "--out", whole, "--quiet",
                           "--tokens", "480", "--context", "1024"}));
  auto wide = Session::open(whole, read_shard), narrow = Session::open(folder_, read_shard);
  ASSERT_TRUE(wide && narrow);
  const auto in_one = tag_text(*wide, encode_bytes(start));
  const auto in_windows = tag_text(*narrow, encode_bytes(start));
  ASSERT_TRUE(in_one && in_windows);
  EXPECT_EQ(in_one->windows, 1);
  EXPECT_GT(in_windows->windows, 1);
  ASSERT_EQ(in_one->spans.size(), in_windows->spans.size());
  EXPECT_GT(in_one->spans.size(), 3u);
  for (size_t i = 0; i < in_one->spans.size(); ++i) {
    const TextSpan& a = in_one->spans[i];
    const TextSpan& b = in_windows->spans[i];
    EXPECT_EQ(std::tie(a.begin, a.end, a.label), std::tie(b.begin, b.end, b.label));
    EXPECT_NEAR(a.score, b.score, 1e-5);
  }
}

}  // namespace
}  // namespace moec
