// moec run --chat: a conversation on the terminal, or the answer to one message.
#pragma once

#include <string>

#include "backends/runtime/text/write_text.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/cli/flags/prompt_flags.h"

namespace moec {

struct ChatFlags {
  bool wanted = false;
  std::string python;
};

// What a run has besides the message.
struct ChatRun {
  const std::string& folder;
  const ChatFlags& flags;
  const WriteOptions& write;
  bool json = false;
};

// Answers the prompt that the flags give, or else each line of standard input, which is one
// message. Errors: run.no_chat (the export has no chat template), run.flags (JSON of a whole
// conversation), those of Conversation.
Status run_chat(const ChatRun& run, const PromptFlags& prompt, Session& session,
                const ModelTokenizer& tokenizer, const Diagnostics& notes);

}  // namespace moec
