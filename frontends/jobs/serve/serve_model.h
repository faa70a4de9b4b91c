// Serves an exported model over HTTP with the completion endpoints of the OpenAI API.
#pragma once

#include <memory>
#include <string>

#include "backends/runtime/session/session.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/chat/chat_template.h"
#include "frontends/jobs/serve/serve_options.h"

namespace moec {

// Text processing of a model: its tokenizer, and its chat template if it has one.
struct ServedText {
  ModelTokenizer tokenizer;
  std::shared_ptr<const ChatTemplate> chat;
};

// Serves the paths in README.md until options.stop returns true. `name` is the model's name.
// Errors: serve.labels (the model labels tokens), serve.address (the port is in use, or the address
// does not belong to this machine), system.resource.
Status serve_model(Session session, const ServedText& text, const std::string& name,
                   const ServeOptions& options);

}  // namespace moec
