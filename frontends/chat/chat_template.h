// The chat template of a model. Templates are programs in Jinja, for which Python has the engine
// that they are written for: chat_template.py, which the program carries, runs beside this process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

class ChatTemplate {
 public:
  // That of an exported folder. `python` is the interpreter, by path or by name, which needs the
  // package jinja2; it is started when the first messages come.
  ChatTemplate(std::string folder, std::string python);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The text of a request for /v1/chat/completions: its messages with its tools, documents and
  // chat_template_kwargs, and the beginning of the assistant's answer. Safe from several threads.
  // Errors: serve.chat (the template refuses the messages), chat.python (the interpreter cannot be
  // started, or has ended: it lacks jinja2).
  Result<std::string> render(std::string_view request) const;

 private:
  struct Running;

  std::unique_ptr<Running> running_;
};

// Whether a folder has a chat template: chat_template.jinja, chat_template.json, or
// "chat_template" in tokenizer_config.json. Errors: those of reading that file.
Result<bool> has_chat_template(const std::string& folder);

}  // namespace moec
