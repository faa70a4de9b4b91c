// Requests of the completion endpoints of the OpenAI API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/runtime/text/generate.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/chat/chat_template.h"

namespace moec {

enum class Endpoint : uint8_t { text, chat };  // /v1/completions, /v1/chat/completions

// A text that another server began and this one continues.
struct ResumedText {
  std::vector<int64_t> tokens;  // of the text so far, also the last ones of the prompt
  int64_t bytes = 0;            // of their text without tool calls, which the client has
  int64_t calls = 0;            // tool calls that the client has
};

struct CompletionRequest {
  Endpoint endpoint = Endpoint::text;
  std::vector<std::vector<int64_t>> prompts;  // token ids; at least one prompt
  int64_t texts = 1;                          // texts per prompt
  GenerateOptions generate;
  std::optional<ResumedText> resumed;  // then there is one text
  std::vector<std::string> stop;       // stop texts, which are not part of the output
  bool with_tools = false;             // chat: extract tool calls from the text
  bool stream = false;
  bool with_usage = false;  // stream: send token counts at the end
};

struct ServedModel {
  const Manifest& manifest;
  const ModelTokenizer& tokenizer;
  const ChatTemplate* chat = nullptr;  // null: the model has no chat template
};

// Parses the body of a request. Rejects unsupported fields that would change the result.
// `most_tokens` is the maximum number of tokens per text, and the default.
//
// The prompt of a text request is a string, a list of token ids, or a list of either. The chat
// template renders the messages of a chat; a model without template whose tokens are bytes gets
// lines "role: content" and a final "assistant:".
//
// Errors: serve.syntax, serve.missing_field, serve.unknown_field, serve.bad_value,
// serve.unsupported (a field of the OpenAI API that moec does not support), serve.chat (there is no
// template, or it rejects the messages); chat.python; for the prompt run.token, run.no_prompt,
// run.no_tokenizer, session.context_full, those of ModelTokenizer::encode().
Result<CompletionRequest> parse_completion(Endpoint endpoint, std::string_view body,
                                           const ServedModel& model, int64_t most_tokens);

}  // namespace moec
