// moec run: writes text with an exported model, or finds the spans that it labels in a text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/formats/read_shard.h"
#include "backends/runtime/text/prompt.h"
#include "backends/runtime/text/tag_text.h"
#include "backends/runtime/text/write_text.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/chat_flags.h"
#include "frontends/cli/flags/engine_flags.h"
#include "frontends/cli/flags/expert_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/prompt_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/cli/run_chat.h"
#include "frontends/jobs/run/expert_report.h"
#include "frontends/jobs/run/run_report.h"
#include "ir/base/output_apart.h"
#include "ir/graph/port_names.h"

namespace moec {

namespace {

// One line for each span: where it begins and ends, its score, its label, and its text if the
// prompt was text.
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
  std::vector<std::string> given;  // those that only one of the two tasks takes
};

// Flags for models that write text, and flags for models that label tokens.
constexpr std::array kWritingFlags = {"--max-tokens",  "--stop-token",   "--ignore-eos",
                                      "--temperature", "--sample-top-k", "--top-p",
                                      "--seed",        "--chat"};
constexpr std::array kTaggingFlags = {"--redact"};

Status check_flags(const RunFlags& flags, bool tags) {
  for (const std::string& flag : flags.given) {
    const bool tagging =
        std::find(kTaggingFlags.begin(), kTaggingFlags.end(), flag) != kTaggingFlags.end();
    if (tagging != tags)
      return fail("run.flags",
                  fmt::format("{} is for models that {}; this one {}", flag,
                              tagging ? "label tokens" : "write text",
                              tags ? "labels tokens" : "writes text"),
                  "leave the flag out");
  }
  return {};
}

// Prints tokens as soon as their text is known.
class TokenPrinter {
 public:
  explicit TokenPrinter(const Tokenizer* tokenizer) : decoder_(tokenizer) {}

  Status add(int64_t token) {
    MOEC_ASSIGN(const std::string text, decoder_.add(token));
    printer_.write(text);
    std::fflush(stdout);
    return {};
  }
  Status finish() {
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

void print_times(const Prompt& prompt, const GeneratedText& text, const Session& session) {
  say("[{} prompt tokens in {:.2f} s, {} tokens at {:.1f} tokens/s]\n", prompt.tokens.size(),
      text.prefill_seconds, text.tokens.size(), text.decode_tokens_per_second());
  if (text.stopped_by == StoppedBy::eos_token)
    say("[stopped by the model's end of text, token {}; --ignore-eos goes on]\n",
        *text.stopping_token);
  if (text.stopped_by == StoppedBy::context)
    say("[the context of {} is full: export with a larger --context for more]\n",
        session.manifest().build.context);
}

Status show_text(const RunFlags& flags, const Prompt& prompt, Session& session,
                 const ModelTokenizer& model_tokenizer, const Diagnostics& notes) {
  MOEC_ASSIGN(const Tokenizer* tokenizer, model_tokenizer.get());
  TokenPrinter printer(tokenizer);
  Status printed;
  const auto show_token = [&](int64_t token) {
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

// The redacted text is written as it is: a file's bytes, or a line.
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
    print_json(spans_json(prompt, tagged, flags.redact, notes));
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
  MOEC_TRY(require_export(flags.folder));
  MOEC_ASSIGN(SessionOptions options, session_options(flags.session));
  MOEC_ASSIGN(options.experts, expert_store_options(flags.experts, flags.folder));
  options.cache_bias = flags.experts.cache_bias;
  MOEC_ASSIGN(options.engine, open_engine(flags.engine));
  if (!flags.gates.file.empty()) options.watched = {kRoutingWeights};
  MOEC_ASSIGN(Session session, Session::open(flags.folder, read_shard, options));
  const bool tags = session.manifest().tagging.has_value();
  MOEC_TRY(check_flags(flags, tags));
  if (flags.write.generate.stop_token)
    MOEC_TRY(check_token("--stop-token", *flags.write.generate.stop_token, session.manifest()));
  Diagnostics notes = notes_of(session, options.precision);
  ModelTokenizer tokenizer = export_tokenizer(flags.folder, session.manifest());
  if (!flags.prompt.tokens.empty()) tokenizer = tokenizer.or_none(notes);
  Prompt prompt;
  if (!flags.chat.wanted) {
    MOEC_ASSIGN(prompt, read_prompt(flags.prompt, session.manifest(), tokenizer));
  }
  if (!flags.json) print_notes(notes);
  MOEC_TRY(check_user_output({flags.gates.file, "--log-gates", flags.replace_log}, flags.folder));
  MOEC_TRY(with_gate_log(session, flags.gates, [&] {
    if (flags.chat.wanted)
      return run_chat({flags.folder, flags.chat, flags.write, flags.json}, flags.prompt, session,
                      tokenizer, notes);
    return tags ? show_spans(flags, prompt, session, notes)
                : show_text(flags, prompt, session, tokenizer, notes);
  }));
  if (session.experts()) MOEC_TRY(session.experts()->save_state());
  if (flags.json) return {};
  say("{}", routing_report(session));
  say("{}", expert_report(session));
  if (flags.memory_report) say("{}", memory_table(memory_report(session)));
  return {};
}

int run_run(const RunFlags& flags) {
  const Status status = run(flags);
  return status ? kExitFine : report_failure(status.error(), flags.json);
}

template <class Names>
void note_given(const CLI::App& command, const Names& names, RunFlags& flags) {
  for (const char* name : names)
    if (command.count(name) > 0) flags.given.emplace_back(name);
}

void add_writing_flags(CLI::App& command, WriteOptions& write) {
  command.add_option("-n,--max-tokens", write.generate.max_tokens, "The most tokens to write")
      ->check(whole_from(1))
      ->capture_default_str();
  command.add_option("--stop-token", write.generate.stop_token,
                     "Stop also when the model chooses this token id (default: none)");
  command.add_flag("--ignore-eos", write.ignore_eos,
                   "Write on behind the end of text, a token that the checkpoint's config names");
  command
      .add_option("--temperature", write.generate.sampler.temperature,
                  "Divide logits by this before sampling; 0 always takes the likeliest token")
      ->check(finite_from_zero())
      ->capture_default_str();
  command
      .add_option("--sample-top-k", write.generate.sampler.top_k,
                  "Sample among the k likeliest tokens; 0: among all")
      ->check(whole_from(0))
      ->capture_default_str();
  command
      .add_option("--top-p", write.generate.sampler.top_p,
                  "Sample from the smallest set of likeliest tokens whose probabilities sum to at "
                  "least this; 1: from all")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--seed", write.generate.sampler.seed, "Seed of the sampling")
      ->check(whole_from(0))
      ->capture_default_str();
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run",
                                         "Write text with an exported model, or, if it labels "
                                         "tokens, find the labelled spans of a text");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  add_prompt_flags(*command, flags->prompt);
  command->add_flag(
      "--chat", flags->chat.wanted,
      "Chat with the model by its chat template: answer the prompt, or one message per "
      "line of standard input");
  add_python_flag(*command, flags->chat.python);
  add_writing_flags(*command, flags->write);
  add_session_flags(*command, flags->session);
  add_engine_flags(*command, flags->engine);
  add_mask_flag(*command, flags->session.expert_mask);
  add_form_flags(*command, flags->session.top_k);
  add_expert_flags(*command, flags->experts);
  add_cache_bias_flags(*command, flags->experts);
  command->add_flag("--memory-report", flags->memory_report,
                    "Print where the memory goes, in MB and percent of the machine's; --json has "
                    "it always");
  CLI::Option* gates = command->add_option(
      "--log-gates", flags->gates.file,
      "Write the experts that tokens choose to this file: CSV, or binary for .moetrace and .bin");
  command->add_flag("--force", flags->replace_log, "Replace the file that --log-gates names");
  command
      ->add_option("--log-layers", flags->gates.layers,
                   "With --log-gates: of these layers only, 0-3,7 (default: all)")
      ->needs(gates);
  command->add_flag("--redact", flags->redact,
                    "Models that label tokens: print the text with <LABEL> in place of each span");
  command->add_flag("--json", flags->json, "Print the tokens and times, or the spans, as JSON");
  command->footer("Example: moec run out/tinymoe --prompt \"def \" --max-tokens 80");
  command->callback([flags, command, &exit_code] {
    note_given(*command, kWritingFlags, *flags);
    note_given(*command, kTaggingFlags, *flags);
    exit_code = run_run(*flags);
  });
}

}  // namespace moec
