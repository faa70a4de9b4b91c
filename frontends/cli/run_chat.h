// moec run --chat: answers one message, or holds a conversation on standard input.
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

struct ChatRun {
  const std::string& folder;
  const ChatFlags& flags;
  const WriteOptions& write;
  bool json = false;
};

// Answers the prompt in `prompt`, or each line of standard input if `prompt` has none. Errors:
// run.no_chat (no chat template), run.flags (--json without a prompt), those of Conversation.
Status run_chat(const ChatRun& run, const PromptFlags& prompt, Session& session,
                const ModelTokenizer& tokenizer, const Diagnostics& notes);

}  // namespace moec
