// Requests as a gateway sees them, and the bodies with which another node continues their texts.
#include "frontends/jobs/route/route_request.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using nlohmann::ordered_json;

RouteRequest parsed(const std::string& body) {
  auto request = parse_route_request("/v1/completions", body);
  EXPECT_TRUE(request) << body;
  return request.value_or(RouteRequest());
}

TEST(RouteRequest, PrefersTheCacheKey) {
  EXPECT_EQ(parsed(R"({"prompt": "a", "user": "u", "prompt_cache_key": "k"})").session.key, "k");
  EXPECT_EQ(parsed(R"({"prompt": "a", "user": "u"})").session.key, "u");
  EXPECT_EQ(parsed(R"({"prompt": "a", "user": null})").session.key, "");
}

TEST(RouteRequest, TextsOfLaterTurnsAreLonger) {
  const auto text = [](const std::string& body) { return parsed(body).session.text; };
  const std::string first = R"({"role": "user", "content": "a"})";
  const std::string second = first + R"(, {"role": "assistant", "content": "b"})";
  EXPECT_TRUE(text(R"({"messages": [)" + second + "]}")
                  .starts_with(text(R"({"messages": [)" + first + "]}")));
  std::string ids = R"({"prompt": [1)";
  for (int i = 0; i < 40; ++i) ids += ", 1";
  EXPECT_TRUE(text(ids + ", 2, 3]}").starts_with(text(ids + ", 2]}")));
  EXPECT_FALSE(text(ids + ", 23]}").starts_with(text(ids + ", 2]}")));
}

// Many prompts begin with a short one.
TEST(RouteRequest, ShortPromptsAreNoSessions) {
  EXPECT_EQ(parsed(R"({"prompt": "The"})").session.text, "");
  const std::string prompt(64, 'x');
  EXPECT_EQ(parsed(R"({"prompt": ")" + prompt + R"("})").session.text, prompt);
}

TEST(ResumedBody, NeedsOneText) {
  for (const char* body :
       {R"({"prompt": ["a", "b"]})", R"({"prompt": [[1], [2]]})", R"({"prompt": "a", "n": 2})"}) {
    EXPECT_EQ(resumed_body(parsed(body), {}, NodeApi::moec), body);
    EXPECT_FALSE(resumed_body(parsed(body), {{7}, "b", 0, 1}, NodeApi::moec)) << body;
  }
}

TEST(ResumedBody, NeedsTokensForCallsAndLogprobs) {
  for (const char* body : {R"({"prompt": "a", "logprobs": 0})",
                           R"({"messages": [], "tools": [{"type": "function"}]})"}) {
    EXPECT_TRUE(resumed_body(parsed(body), {{7}, "b", 0, 1}, NodeApi::moec)) << body;
    EXPECT_FALSE(resumed_body(parsed(body), {{7}, "b", 0, 1}, NodeApi::openai)) << body;
    EXPECT_FALSE(resumed_body(parsed(body), {{}, "b", 0, 1}, NodeApi::moec)) << body;
  }
  for (const char* body : {R"({"prompt": "a", "n": 1, "logprobs": null})",
                           R"({"messages": [], "tools": [], "logprobs": false, "n": null})"})
    EXPECT_TRUE(resumed_body(parsed(body), {{}, "b", 0, 1}, NodeApi::openai)) << body;
}

TEST(ResumedBody, HasTheTokensSoFar) {
  const RouteRequest request = parsed(R"({"prompt": "a", "max_tokens": 9})");
  EXPECT_EQ(resumed_body(request, {}, NodeApi::moec), request.body);
  EXPECT_EQ(ordered_json::parse(*resumed_body(request, {{7, 8}, "bc", 3, 1}, NodeApi::moec)),
            ordered_json::parse(R"({"prompt": "a", "max_tokens": 9,
                              "resume": {"token_ids": [7, 8], "text_bytes": 2, "tool_calls": 3}})"));
}

TEST(ResumedBody, AppendsTextWithoutTokens) {
  EXPECT_EQ(ordered_json::parse(*resumed_body(parsed(R"({"prompt": "a", "max_tokens": 9})"),
                                              {{}, "bc", 0, 2}, NodeApi::openai)),
            ordered_json::parse(R"({"prompt": "abc", "max_tokens": 7})"));
  EXPECT_EQ(ordered_json::parse(
                *resumed_body(parsed(R"({"messages": [{"role": "user", "content": "a"}]})"),
                              {{}, "bc", 0, 2}, NodeApi::openai)),
            ordered_json::parse(R"({"messages": [{"role": "user", "content": "a"},
                                                 {"role": "assistant", "content": "bc"}]})"));
  EXPECT_FALSE(resumed_body(parsed(R"({"prompt": [1, 2]})"), {{}, "bc", 0, 2}, NodeApi::openai));
}

}  // namespace
}  // namespace moec
