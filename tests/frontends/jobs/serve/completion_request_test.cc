// Accepted and rejected requests to the OpenAI API.
#include "frontends/jobs/serve/completion_request.h"

#include <gmock/gmock.h>

#include "tests/byte_text.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using manifest::TokenizerKind;

Manifest manifest_of(TokenizerKind tokenizer) {
  Manifest manifest;
  manifest.tokenizer = tokenizer;
  manifest.model.vocab = 256;
  manifest.model.eos_tokens = {3};
  manifest.build.context = 32;
  return manifest;
}

Result<CompletionRequest> parse(Endpoint endpoint, const std::string& body,
                                TokenizerKind kind = TokenizerKind::bytes) {
  const Manifest manifest = manifest_of(kind);
  const bool bytes = kind == TokenizerKind::bytes;
  return parse_completion(endpoint, body, {manifest, bytes ? byte_tokenizer() : no_tokenizer()},
                          16);
}

Result<CompletionRequest> parse_text(const std::string& body,
                                     TokenizerKind kind = TokenizerKind::bytes) {
  return parse(Endpoint::text, body, kind);
}

std::string refusal(const Result<CompletionRequest>& result) {
  return result ? "it was taken" : result.error().front().code + ": " + render(result.error());
}

TEST(CompletionRequest, AcceptsTextAndOptions) {
  const auto request = parse_text(
      R"({"model": "x", "prompt": "ab", "max_tokens": 5, "temperature": 0.5, "seed": 7, "top_k": 4,
          "stop": ["\n"], "stop_token_ids": [9], "stream": true, "n": 1, "top_p": 0.5,
          "logprobs": null, "stream_options": {"include_usage": true}})");
  ASSERT_TRUE(request) << render(request.error());
  EXPECT_THAT(request->prompts.front(), ElementsAre('a', 'b'));
  EXPECT_EQ(request->generate.max_tokens, 5);
  EXPECT_EQ(request->generate.sampler.temperature, 0.5);
  EXPECT_EQ(request->generate.sampler.seed, 7u);
  EXPECT_EQ(request->generate.sampler.top_k, 4);
  EXPECT_EQ(request->generate.sampler.top_p, 0.5);
  EXPECT_THAT(request->generate.eos_tokens, ElementsAre(3, 9));
  EXPECT_THAT(request->stop, ElementsAre("\n"));
  EXPECT_TRUE(request->stream);
  EXPECT_TRUE(request->with_usage);
}

TEST(CompletionRequest, AcceptsTokensWithoutAByteTokenizer) {
  const auto request = parse_text(R"({"prompt": [5, 255]})", TokenizerKind::none);
  ASSERT_TRUE(request) << render(request.error());
  EXPECT_THAT(request->prompts.front(), ElementsAre(5, 255));
  EXPECT_EQ(request->generate.max_tokens, 16) << "the server's limit";
  EXPECT_FALSE(request->stream);
}

TEST(CompletionRequest, FormatsChatsAsLines) {
  const auto request = parse(Endpoint::chat,
                             R"({"messages": [{"role": "system", "content": "Hello!"},
                       {"role": "user", "content": [{"type": "text", "text": "a"}]}]})",
                             TokenizerKind::bytes);
  ASSERT_FALSE(request) << "33 characters leave no room for a token";
  EXPECT_THAT(refusal(request), HasSubstr("session.context_full"));
  const auto fits = parse(Endpoint::chat, R"({"messages": [{"role": "user", "content": "Hi"}]})",
                          TokenizerKind::bytes);
  ASSERT_TRUE(fits) << render(fits.error());
  EXPECT_EQ(decode_bytes(fits->prompts.front()), "user: Hi\nassistant:");
}

TEST(CompletionRequest, AcceptsAReturnedAnswer) {
  const auto chat = [](const std::string& message) {
    return parse(Endpoint::chat, R"({"messages": [)" + message + "]}", TokenizerKind::bytes);
  };
  const auto answer = chat(
      R"({"role": "assistant", "content": "Hi", "refusal": null, "tool_calls": null,
          "annotations": []})");
  ASSERT_TRUE(answer) << render(answer.error());
  EXPECT_EQ(decode_bytes(answer->prompts.front()), "assistant: Hi\nassistant:");
  const auto without_text = chat(R"({"role": "assistant", "content": null})");
  ASSERT_TRUE(without_text) << render(without_text.error());
  EXPECT_EQ(decode_bytes(without_text->prompts.front()), "assistant: \nassistant:");
  EXPECT_THAT(refusal(chat(R"({"role": "user", "content": "Hi", "name": "Ann"})")),
              HasSubstr("serve.unsupported"));
  EXPECT_THAT(refusal(chat(R"({"role": "user", "content": [{"type": "text", "text": "a",
                               "image": "x"}]})")),
              HasSubstr("serve.unknown_field"));
}

TEST(CompletionRequest, RejectsUnsupportedFields) {
  for (const char* field :
       {R"("best_of": 2)", R"("presence_penalty": 0.5)", R"("echo": true)",
        R"("logit_bias": {"1": 5})", R"("tools": [{}])", R"("suffix": "x")", R"("suffix": "none")",
        R"("modalities": ["text", "audio"])", R"("verbosity": "low")"})
    EXPECT_THAT(refusal(parse_text(std::string(R"({"prompt": "a", )") + field + "}")),
                HasSubstr("serve.unsupported"))
        << field;
  for (const char* field : {R"("stop": [])", R"("tools": [])", R"("tool_choice": "none")",
                            R"("response_format": {"type": "text"})", R"("logit_bias": {})",
                            R"("modalities": ["text"])", R"("verbosity": "medium")",
                            R"("prompt_cache_key": "a")", R"("safety_identifier": "b")"})
    EXPECT_TRUE(parse_text(std::string(R"({"prompt": "a", )") + field + "}")) << field;
  EXPECT_THAT(refusal(parse_text(R"({"prompt": "a", "temprature": 1})")),
              HasSubstr("serve.unknown_field"));
}

TEST(CompletionRequest, AcceptsListsOfPrompts) {
  const auto texts = parse_text(R"({"prompt": ["ab", "c"], "n": 2})");
  ASSERT_TRUE(texts) << refusal(texts);
  EXPECT_THAT(texts->prompts, ElementsAre(ElementsAre('a', 'b'), ElementsAre('c')));
  EXPECT_EQ(texts->texts, 2);
  const auto tokens = parse_text(R"({"prompt": [[5, 6], [7]]})", TokenizerKind::none);
  ASSERT_TRUE(tokens) << refusal(tokens);
  EXPECT_THAT(tokens->prompts, ElementsAre(ElementsAre(5, 6), ElementsAre(7)));
  for (const char* body :
       {R"({"prompt": ["a", ""]})", R"({"prompt": [[]]})", R"({"prompt": [["a"]]})",
        R"({"prompt": ["a", 5]})", R"({"prompt": [5, "a"]})", R"({"prompt": "a", "n": 17})",
        R"({"prompt": ["a", "b"], "n": 9})", R"({"prompt": "a", "n": 0})"})
    EXPECT_THAT(refusal(parse_text(body)), HasSubstr("serve.bad_value")) << body;
}

TEST(CompletionRequest, AcceptsLogprobs) {
  const auto top = [](Endpoint endpoint, const std::string& fields) {
    const char* prompt = endpoint == Endpoint::text
                             ? R"("prompt": "a")"
                             : R"("messages": [{"role": "user", "content": "a"}])";
    const auto request = parse(endpoint, "{" + std::string(prompt) + fields + "}");
    EXPECT_TRUE(request) << refusal(request);
    return request ? request->generate.top_logprobs : std::nullopt;
  };
  EXPECT_EQ(top(Endpoint::text, ""), std::nullopt);
  EXPECT_EQ(top(Endpoint::text, R"(, "logprobs": 0)"), 0);
  EXPECT_EQ(top(Endpoint::text, R"(, "logprobs": 5)"), 5);
  EXPECT_EQ(top(Endpoint::chat, R"(, "logprobs": false)"), std::nullopt);
  EXPECT_EQ(top(Endpoint::chat, R"(, "logprobs": true)"), 0);
  EXPECT_EQ(top(Endpoint::chat, R"(, "top_logprobs": 20, "logprobs": true)"), 20);
  EXPECT_EQ(top(Endpoint::chat, R"(, "logprobs": true, "top_logprobs": 2)"), 2);
  for (const char* field : {R"("logprobs": true)", R"("logprobs": 21)", R"("logprobs": -1)",
                            R"("logprobs": 1, "top_logprobs": 1)"})
    EXPECT_THAT(refusal(parse_text(std::string(R"({"prompt": "a", )") + field + "}")),
                HasSubstr("serve.bad_value"))
        << field;
  EXPECT_THAT(refusal(parse(Endpoint::chat, R"({"top_logprobs": 2, "messages":
                                             [{"role": "user", "content": "a"}]})")),
              HasSubstr("requires logprobs: true"));
}

TEST(CompletionRequest, NamesTheInvalidPart) {
  const struct {
    const char *body, *code;
  } cases[] = {
      {"", "serve.syntax"},
      {"[]", "serve.bad_value"},
      {"{}", "serve.missing_field"},
      {R"({"prompt": 5})", "serve.bad_value"},
      {R"({"prompt": []})", "serve.bad_value"},
      {R"({"prompt": ""})", "serve.bad_value"},
      {R"({"prompt": null})", "serve.bad_value"},
      {R"({"prompt": [256]})", "run.token"},
      {R"({"prompt": [-1]})", "run.token"},
      {R"({"prompt": "a", "prompt": "b"})", "serve.duplicate_key"},
      {R"({"prompt": "a", "max_tokens": 0})", "serve.bad_value"},
      {R"({"prompt": "a", "max_tokens": 17})", "serve.bad_value"},
      {R"({"prompt": "a", "max_tokens": 1e9})", "serve.bad_value"},
      {R"({"prompt": "a", "temperature": -1})", "serve.bad_value"},
      {R"({"prompt": "a", "temperature": 1e300})", "serve.bad_value"},
      {R"({"prompt": "a", "stop": ""})", "serve.bad_value"},
      {R"({"prompt": "a", "stop": ["1", "2", "3", "4", "5"]})", "serve.bad_value"},
      {R"({"prompt": "a", "stop_token_ids": [999]})", "run.token"},
      {R"({"prompt": "a", "stream": 1})", "serve.bad_value"},
      {R"({"prompt": "a", "max_tokens": 3, "max_completion_tokens": 4})", "serve.bad_value"},
      {R"({"prompt": "a", "stream_options": {"usage": true}})", "serve.unknown_field"},
  };
  for (const auto& one : cases)
    EXPECT_THAT(refusal(parse_text(one.body)), HasSubstr(one.code)) << one.body;
  EXPECT_THAT(refusal(parse_text(R"({"prompt": "a", "max_completion_tokens": 17})")),
              HasSubstr("max_completion_tokens"));
  EXPECT_THAT(refusal(parse_text(R"({"prompt": "a"})", TokenizerKind::none)),
              HasSubstr("run.no_tokenizer"));
  EXPECT_THAT(refusal(parse_text(R"({"prompt": [1], "stop": "a"})", TokenizerKind::none)),
              HasSubstr("run.no_tokenizer"));
  EXPECT_THAT(refusal(parse(Endpoint::chat, R"({"messages": []})", TokenizerKind::none)),
              HasSubstr("serve.chat"));
  EXPECT_THAT(refusal(parse(Endpoint::chat, R"({"messages": []})", TokenizerKind::bytes)),
              HasSubstr("serve.bad_value"));
}

}  // namespace
}  // namespace moec
