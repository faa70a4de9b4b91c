// What a client of the completion interfaces of the OpenAI API asks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/runtime/text/generate.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/chat/chat_template.h"

namespace moec {

enum class Endpoint : uint8_t { text, chat };  // /v1/completions, /v1/chat/completions

struct CompletionRequest {
  Endpoint endpoint = Endpoint::text;
  std::vector<std::vector<int64_t>> prompts;  // tokens of each; at least one
  int64_t texts = 1;                          // that go on from each prompt
  GenerateOptions generate;
  std::vector<std::string> stop;  // texts that end the text, and are not part of it
  bool stream = false;
  bool with_usage = false;  // of a stream: counts of tokens at its end
};

struct ServedModel {
  const Manifest& manifest;
  const ModelTokenizer& tokenizer;
  const ChatTemplate* chat = nullptr;  // null: it has none
};

// Reads the body of a request. A field that would change the result in a way that moec does not
// compute is an error, not ignored. `most_tokens` is the most that a text may have, and what it has
// unless the request says how many.
// The prompt of a text is a string, a list of token ids, or a list of either. The messages of a
// chat become the text of the model's chat template; without one, lines "role: content" and a last
// "assistant:" for a model whose tokens are bytes. Errors: serve.syntax, serve.missing_field,
// serve.unknown_field, serve.bad_value, serve.unsupported (a field that OpenAI has and moec does
// not compute), serve.chat (there is no template, or it refuses the messages); chat.python; of the
// prompt run.token, run.no_prompt, run.no_tokenizer, session.context_full, those of
// ModelTokenizer::encode().
Result<CompletionRequest> parse_completion(Endpoint endpoint, std::string_view body,
                                           const ServedModel& model, int64_t most_tokens);

}  // namespace moec
