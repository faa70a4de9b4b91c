// A conversation with an exported model: messages in turn, by the model's chat template.
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
  // All must outlive it.
  Conversation(Session& session, const Tokenizer& tokenizer, const ChatTemplate& chat,
               const WriteOptions& options);

  // The model's answer to a user's message; `on_text` gets it piece by piece. What earlier turns
  // have in the session's caches is not run again. Errors: those of ChatTemplate::render(),
  // Tokenizer and generate_text(); run.no_prompt (the template gives an empty text).
  Result<GeneratedText> answer(std::string_view message,
                               const std::function<void(const std::string&)>& on_text);

  // The tokens of all messages before the latest answer.
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
  std::vector<int64_t> cached_;  // tokens that the session has
};

}  // namespace moec
