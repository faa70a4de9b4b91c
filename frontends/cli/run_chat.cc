#include "frontends/cli/run_chat.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontends/chat/chat_template.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/run/conversation.h"
#include "frontends/jobs/run/run_report.h"

namespace moec {
namespace {

// Prints the answer while it is generated if `shows` is true; with --json, it is only returned.
Result<GeneratedText> show_answer(Conversation& conversation, const std::string& message,
                                  bool shows) {
  TextPrinter printer;
  const auto show = [&](const std::string& text) {
    if (!shows) return;
    printer.write(text);
    std::fflush(stdout);
  };
  MOEC_ASSIGN(GeneratedText written, conversation.answer(message, show));
  if (shows) {
    printer.finish();
    print_out("\n");
  }
  return written;
}

Status talk(Conversation& conversation) {
  say("[one message per line; an empty line ends the conversation]\n");
  std::string line;
  for (;;) {
    say("> ");
    // The end of standard input also ends the conversation, for example in a script.
    if (!std::getline(std::cin, line) || line.empty()) return {};
    MOEC_ASSIGN(const GeneratedText written, show_answer(conversation, line, true));
    say("[{} tokens at {:.1f} tokens/s]\n", written.tokens.size(),
        written.decode_tokens_per_second());
  }
}

}  // namespace

Status run_chat(const ChatRun& run, const PromptFlags& prompt, Session& session,
                const ModelTokenizer& tokenizer, const Diagnostics& notes) {
  // Checked before standard input is read, which could block.
  MOEC_TRY(check_takes_text(tokenizer));
  MOEC_ASSIGN(const bool has_chat, has_chat_template(run.folder));
  if (!has_chat)
    return fail("run.no_chat", "the export has no chat template",
                "omit --chat, or export again with tokenizer_config.json or chat_template.jinja "
                "next to config.json",
                {.file = run.folder});
  MOEC_ASSIGN(const std::optional<std::string> message, read_prompt_text(prompt));
  // A conversation has several answers, but stdout must have exactly one JSON object.
  if (!message && run.json)
    return fail("run.flags", "--chat with --json requires a prompt",
                "pass --prompt, or omit --json");
  // `tokenizer` keeps ownership and outlives the conversation.
  MOEC_ASSIGN(const Tokenizer* opened, tokenizer.get());
  const ChatTemplate chat(run.folder, run.flags.python);
  Conversation conversation(session, *opened, chat, run.write);
  if (!message) return talk(conversation);
  MOEC_ASSIGN(const GeneratedText written, show_answer(conversation, *message, !run.json));
  if (!run.json) return {};
  // The report has the tokens of the rendered template, which are those that the model read.
  const Prompt all{conversation.prompt(), message, std::nullopt};
  MOEC_ASSIGN(const auto json, text_json(all, written, session, opened, notes));
  print_json(json);
  return {};
}

}  // namespace moec
