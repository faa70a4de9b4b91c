// Renders the chat template of a model. Templates are written for Python's jinja2, so a child
// process renders them with the embedded script chat_template.py.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

class ChatTemplate {
 public:
  // `folder`: an export. `python`: path or name of an interpreter with the package jinja2. The
  // first render() starts the interpreter.
  ChatTemplate(std::string folder, std::string python);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // Renders the messages, tools, documents and chat_template_kwargs of `request`, the JSON body of
  // a request to /v1/chat/completions, followed by the generation prompt. Thread-safe. Errors:
  // serve.chat (the export has no template, or the template rejects the messages); chat.python (the
  // interpreter cannot start, or exited, such as without jinja2).
  Result<std::string> render(std::string_view request) const;

 private:
  struct Running;

  std::unique_ptr<Running> running_;
};

// Returns true if the folder has a chat template: chat_template.jinja, chat_template.json, or
// "chat_template" in tokenizer_config.json. Errors: those of reading tokenizer_config.json.
Result<bool> has_chat_template(const std::string& folder);

}  // namespace moec
