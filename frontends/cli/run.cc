// moec run: generates text with an exported model, or prints the spans that it labels in a text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backends/formats/read_shard.h"
#include "backends/runtime/text/prompt.h"
#include "backends/runtime/text/tag_text.h"
#include "backends/runtime/text/write_text.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/chat/chat_template.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/chat_flags.h"
#include "frontends/cli/flags/engine_flags.h"
#include "frontends/cli/flags/expert_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/prompt_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/run/conversation.h"
#include "frontends/jobs/run/expert_report.h"
#include "frontends/jobs/run/run_report.h"
#include "ir/base/output_apart.h"
#include "ir/graph/port_names.h"

namespace moec {

namespace {

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

// Answers the prompt in `prompt`, or each line of standard input if `prompt` has none. Errors:
// run.no_chat (no chat template), run.flags (--json without a prompt), those of Conversation.
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

// Prints one line per span: its begin, end, score and label, and its text if the prompt was text.
void print_spans(const Prompt& prompt, const TaggedText& tagged) {
  for (const TextSpan& span : tagged.spans)
    print_out("{:>6} {:>6}  {:.3f}  {}{}\n", span.begin, span.end, span.score, span.label,
              prompt.text ? "  " + text_of_span(*prompt.text, span) : "");
}

struct RunFlags {
  std::string folder;
  SessionFlags session;
  EngineFlags engine;
  PromptFlags prompt;
  ChatFlags chat{.python = default_python()};
  WriteOptions write;
  GateLogOptions gates;
  bool replace_log = false;
  ExpertFlags experts;
  bool redact = false, json = false, memory_report = false;
  std::vector<std::string> given;  // given flags that apply to only one of the two tasks
};

// The first list applies only to models that write text, the second only to models that label
// tokens.
constexpr std::array kWritingFlags = {"--max-tokens",  "--stop-token",   "--ignore-eos",
                                      "--temperature", "--sample-top-k", "--top-p",
                                      "--seed",        "--chat"};
constexpr std::array kTaggingFlags = {"--redact"};

// The task is known only after the manifest is read, so CLI11 cannot check these flags.
Status check_flags(const RunFlags& flags, bool tags) {
  for (const std::string& flag : flags.given) {
    const bool tagging =
        std::find(kTaggingFlags.begin(), kTaggingFlags.end(), flag) != kTaggingFlags.end();
    if (tagging != tags)
      return fail("run.flags",
                  fmt::format("{} is for models that {}, but this model {}", flag,
                              tagging ? "label tokens" : "write text",
                              tags ? "labels tokens" : "writes text"),
                  "omit the flag");
  }
  return {};
}

// Prints tokens as soon as their text is complete: a character may span several tokens.
class TokenPrinter {
 public:
  explicit TokenPrinter(const Tokenizer* tokenizer) : decoder_(tokenizer) {}

  Status add(int64_t token) {
    MOEC_ASSIGN(const std::string text, decoder_.add(token));
    printer_.write(text);
    // stdout may be a pipe, which would otherwise show the text in large pieces.
    std::fflush(stdout);
    return {};
  }
  Status finish() {
    // A text may end within a character, whose bytes are still pending.
    MOEC_ASSIGN(const std::string text, decoder_.finish());
    printer_.write(text);
    printer_.finish();
    print_out("\n");
    return {};
  }

 private:
  TextDecoder decoder_;
  TextPrinter printer_;
};

// To stderr, so that stdout has only the text.
void print_times(const Prompt& prompt, const GeneratedText& text, const Session& session) {
  say("[{} prompt tokens in {:.2f} s, {} tokens at {:.1f} tokens/s]\n", prompt.tokens.size(),
      text.prefill_seconds, text.tokens.size(), text.decode_tokens_per_second());
  if (text.stopped_by == StoppedBy::eos_token)
    say("[stopped at the end-of-text token {}; pass --ignore-eos to continue]\n",
        *text.stopping_token);
  if (text.stopped_by == StoppedBy::context)
    say("[the context of {} tokens is full; export with a larger --context]\n",
        session.manifest().build.context);
}

Status show_text(const RunFlags& flags, const Prompt& prompt, Session& session,
                 const ModelTokenizer& model_tokenizer, const Diagnostics& notes) {
  MOEC_ASSIGN(const Tokenizer* tokenizer, model_tokenizer.get());
  TokenPrinter printer(tokenizer);
  // The callback cannot return an error, so the first one is kept until generation has ended.
  Status printed;
  const auto show_token = [&](int64_t token) {
    // With --json, stdout has exactly one object.
    if (!flags.json && printed) printed = printer.add(token);
  };
  MOEC_ASSIGN(const GeneratedText text, write_text(session, prompt, flags.write, show_token));
  if (flags.json) {
    MOEC_ASSIGN(const auto json, text_json(prompt, text, session, tokenizer, notes));
    print_json(json);
    return {};
  }
  MOEC_TRY(printed);
  MOEC_TRY(printer.finish());
  print_times(prompt, text, session);
  return {};
}

// Adds a final newline only if the prompt came from the command line. Text from a file is printed
// byte for byte.
void print_redacted(const RunFlags& flags, const Prompt& prompt, const TaggedText& tagged) {
  TextPrinter printer;
  printer.write(redact(*prompt.text, tagged.spans));
  printer.finish();
  if (flags.prompt.file.empty()) print_out("\n");
}

Status show_spans(const RunFlags& flags, const Prompt& prompt, Session& session,
                  const Diagnostics& notes) {
  MOEC_ASSIGN(const TaggedText tagged, label_text(session, prompt, flags.redact));
  if (flags.json)
    print_json(spans_json(prompt, tagged, flags.redact, session, notes));
  else if (flags.redact)
    print_redacted(flags, prompt, tagged);
  else
    print_spans(prompt, tagged);
  return {};
}

Diagnostics notes_of(const Session& session, Precision precision) {
  Diagnostics notes = note_precision(session.manifest(), precision);
  if (const auto experts = session.experts())
    notes.insert(notes.end(), experts->notes().begin(), experts->notes().end());
  return notes;
}

Status run(const RunFlags& flags) {
  // Cheap checks of flags and files come before the model is opened.
  MOEC_TRY(require_export(flags.folder));
  MOEC_ASSIGN(SessionOptions options, session_options(flags.session));
  MOEC_ASSIGN(options.experts, expert_store_options(flags.experts, flags.folder));
  MOEC_ASSIGN(options.peers, node_peers(flags.experts));
  options.cache_bias = flags.experts.cache_bias;
  // session_options() created the engine `cpu`, which open_engine() may replace.
  MOEC_ASSIGN(options.engine, open_engine(flags.engine, flags.session, options.engine));
  // Engines other than the reference executor expose only the values that are requested in advance.
  if (!flags.gates.file.empty()) options.watched = {kRoutingWeights};
  MOEC_ASSIGN(Session session, Session::open(flags.folder, read_shard, options));
  // Only models that label tokens have this entry.
  const bool tags = session.manifest().tagging.has_value();
  MOEC_TRY(check_flags(flags, tags));
  if (flags.write.generate.stop_token)
    MOEC_TRY(check_token("--stop-token", *flags.write.generate.stop_token, session.manifest()));
  Diagnostics notes = notes_of(session, options.precision);
  ModelTokenizer tokenizer = export_tokenizer(flags.folder, session.manifest());
  // A prompt of token ids needs no tokenizer, so an unusable one becomes a note.
  if (!flags.prompt.tokens.empty()) tokenizer = tokenizer.or_none(notes);
  Prompt prompt;
  // A chat may read its messages from standard input, one at a time, in run_chat().
  if (!flags.chat.wanted) {
    MOEC_ASSIGN(prompt, read_prompt(flags.prompt, session.manifest(), tokenizer));
  }
  if (!flags.json) print_notes(notes);
  // Before generation, so that a refused log file costs no run.
  MOEC_TRY(check_user_output({flags.gates.file, "--log-gates", flags.replace_log}, flags.folder));
  MOEC_TRY(with_gate_log(session, flags.gates, [&] {
    if (flags.chat.wanted)
      return run_chat({flags.folder, flags.chat, flags.write, flags.json}, flags.prompt, session,
                      tokenizer, notes);
    return tags ? show_spans(flags, prompt, session, notes)
                : show_text(flags, prompt, session, tokenizer, notes);
  }));
  // Only after success, so that a failed run leaves the earlier state.
  if (session.experts()) MOEC_TRY(session.experts()->save_state());
  // The JSON object already contains these reports.
  if (flags.json) return {};
  print_notes(note_widened(session));
  say("{}", routing_report(session));
  say("{}", expert_report(session));
  if (flags.memory_report) say("{}", memory_table(memory_report(session)));
  return {};
}

int run_run(const RunFlags& flags) {
  const Status status = run(flags);
  return status ? kExitFine : report_failure(status.error(), flags.json);
}

// Copies the names, because run() has no access to the command.
template <class Names>
void note_given(const CLI::App& command, const Names& names, RunFlags& flags) {
  for (const char* name : names)
    if (command.count(name) > 0) flags.given.emplace_back(name);
}

void add_writing_flags(CLI::App& command, WriteOptions& write) {
  command
      .add_option("-n,--max-tokens", write.generate.max_tokens,
                  "Maximum number of tokens to generate")
      ->check(whole_from(1))
      ->capture_default_str();
  command.add_option("--stop-token", write.generate.stop_token,
                     "Also stop when the model generates this token id (default: none)");
  command.add_flag("--ignore-eos", write.ignore_eos,
                   "Continue after the end-of-text tokens that the checkpoint's config names");
  command
      .add_option("--temperature", write.generate.sampler.temperature,
                  "Divide logits by this before sampling; 0: always the most likely token")
      ->check(finite_from_zero())
      ->capture_default_str();
  command
      .add_option("--sample-top-k", write.generate.sampler.top_k,
                  "Sample from the k most likely tokens; 0: from all")
      ->check(whole_from(0))
      ->capture_default_str();
  command
      .add_option("--top-p", write.generate.sampler.top_p,
                  "Sample from the smallest set of most likely tokens whose probabilities sum to "
                  "at least this; 1: from all")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--seed", write.generate.sampler.seed, "Seed of the sampler")
      ->check(whole_from(0))
      ->capture_default_str();
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run",
                                         "Generate text with an exported model or, if it labels "
                                         "tokens, print the labelled spans of a text");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  add_prompt_flags(*command, flags->prompt);
  command->add_flag("--chat", flags->chat.wanted,
                    "Chat with the model using its chat template: answer the prompt, or each line "
                    "of standard input");
  add_python_flag(*command, flags->chat.python);
  add_writing_flags(*command, flags->write);
  add_session_flags(*command, flags->session);
  add_engine_flags(*command, flags->engine);
  add_mask_flag(*command, flags->session.expert_mask);
  add_form_flags(*command, flags->session.top_k);
  add_expert_flags(*command, flags->experts);
  add_cache_bias_flags(*command, flags->experts);
  command->add_flag("--memory-report", flags->memory_report,
                    "Print the memory use by purpose, in MB and percent of the machine's memory; "
                    "--json always includes it");
  CLI::Option* gates = command->add_option("--log-gates", flags->gates.file,
                                           "Write the experts that each token chooses to this "
                                           "file: binary for .moetrace and .bin, else CSV");
  command->add_flag("--force", flags->replace_log, "Replace the file that --log-gates names");
  command
      ->add_option("--log-layers", flags->gates.layers,
                   "With --log-gates: log only these layers, e.g. 0-3,7 (default: all)")
      ->needs(gates);
  command->add_flag(
      "--redact", flags->redact,
      "For models that label tokens: print the text with <LABEL> in place of each span");
  command->add_flag("--json", flags->json, "Print the tokens and times, or the spans, as JSON");
  command->footer("Example: moec run out/tinymoe --prompt \"def \" --max-tokens 80");
  command->callback([flags, command, &exit_code] {
    // Defaults do not count: only given flags can contradict the task of the model.
    note_given(*command, kWritingFlags, *flags);
    note_given(*command, kTaggingFlags, *flags);
    exit_code = run_run(*flags);
  });
}

}  // namespace moec
