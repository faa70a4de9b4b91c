// A multi-turn conversation with an exported model, formatted by its chat template.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/session/session.h"
#include "backends/runtime/text/write_text.h"
#include "backends/tokenizer/tokenizer.h"
#include "frontends/chat/chat_template.h"

namespace moec {

class Conversation {
 public:
  // All arguments must outlive the conversation.
  Conversation(Session& session, const Tokenizer& tokenizer, const ChatTemplate& chat,
               const WriteOptions& options);

  // Generates the answer to a user message and streams it to `on_text`. Reuses the session's cache
  // of earlier turns. Errors: those of ChatTemplate::render(), Tokenizer and generate_text();
  // run.no_prompt (the rendered text is empty).
  Result<GeneratedText> answer(std::string_view message,
                               const std::function<void(const std::string&)>& on_text);

  // The prompt tokens of the latest answer.
  const std::vector<int64_t>& prompt() const { return prompt_; }

 private:
  struct Message {
    std::string role, content;
  };

  std::string request() const;
  size_t keep_common(const std::vector<int64_t>& prompt);

  Session& session_;
  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
  WriteOptions options_;
  std::vector<Message> messages_;
  std::vector<int64_t> prompt_;
  std::vector<int64_t> cached_;  // tokens in the session's cache
};

}  // namespace moec
