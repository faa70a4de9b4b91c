// moec run: writes text with an exported model, or finds the spans that it labels in a text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/runtime/generate.h"
#include "backends/runtime/tag_text.h"
#include "backends/runtime/tokenizer.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/prompt_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_spans.h"
#include "frontends/cli/print/say.h"
#include "frontends/formats/read_shard.h"

namespace moec {
namespace {

struct RunFlags {
  std::string folder;
  SessionFlags session;
  PromptFlags prompt;
  GenerateOptions generate;
  bool redact = false, ignore_eos = false, json = false;
  std::vector<std::string> given;  // those that only one of the two tasks takes
};

// Flags for models that write text, and flags for models that label tokens.
constexpr std::array kWritingFlags = {"--max-tokens",  "--stop-token", "--ignore-eos",
                                      "--temperature", "--top-k",      "--seed"};
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

bool writes_bytes(const Session& session) {
  return session.manifest().tokenizer == TokenizerKind::bytes;
}

// Prints a token as soon as it is known.
void show(const Session& session, int64_t token, TextPrinter& printer) {
  printer.write(writes_bytes(session) ? decode_bytes({token}) : fmt::format("{} ", token));
  std::fflush(stdout);
}

void print_text_json(const Prompt& prompt, const GeneratedText& text, const Session& session,
                     const Diagnostics& notes) {
  nlohmann::ordered_json written;  // null where tokens are not bytes
  if (writes_bytes(session)) written = decode_bytes(text.tokens);
  nlohmann::ordered_json json = {{"prompt", prompt.tokens},
                                 {"tokens", text.tokens},
                                 {"text", written},
                                 {"stopped_by", enum_name(text.stopped_by)},
                                 {"prefill_seconds", text.prefill_seconds},
                                 {"decode_seconds", text.decode_seconds},
                                 {"decode_tokens_per_second", text.decode_tokens_per_second()},
                                 {"skipped_steps", session.skipped_steps()}};
  if (text.stopping_token) json["stopping_token"] = *text.stopping_token;
  print_json(true, json, notes);
}

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

// The length of the prompt is checked before the first token of it is shown.
Status write_text(const RunFlags& flags, const Prompt& prompt, Session& session,
                  const Diagnostics& notes) {
  MOEC_TRY(check_prompt_length(prompt.tokens, session.manifest()));
  TextPrinter printer;
  const auto show_token = [&](int64_t token) {
    if (!flags.json) show(session, token, printer);
  };
  for (const int64_t token : prompt.tokens) show_token(token);
  GenerateOptions options = flags.generate;
  if (!flags.ignore_eos) options.eos_tokens = session.manifest().model.eos_tokens;
  MOEC_ASSIGN(const GeneratedText text, generate_text(session, prompt.tokens, options, show_token));
  if (flags.json) {
    print_text_json(prompt, text, session, notes);
    return {};
  }
  printer.finish();
  print_out("\n");
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

Status find_spans(const RunFlags& flags, const Prompt& prompt, Session& session) {
  if (flags.redact && !prompt.text)
    return fail("run.no_text", "--redact needs a text; the prompt consists of token ids",
                "give --prompt TEXT or --prompt-file FILE, or leave --redact out");
  MOEC_ASSIGN(TaggedText tagged, tag_text(session, prompt.tokens));
  if (flags.redact) MOEC_TRY(check_judged(*prompt.text, tagged));
  if (prompt.text) widen_to_characters(*prompt.text, tagged.spans);
  if (flags.json)
    print_spans_json(prompt, tagged, flags.redact);
  else if (flags.redact)
    print_redacted(flags, prompt, tagged);
  else
    print_spans(prompt, tagged);
  return {};
}

Status run(const RunFlags& flags) {
  MOEC_TRY(require_export(flags.folder));
  MOEC_ASSIGN(const SessionOptions options, session_options(flags.session));
  MOEC_ASSIGN(Session session, Session::open(flags.folder, read_shard, options));
  const bool tags = session.manifest().tagging.has_value();
  MOEC_TRY(check_flags(flags, tags));
  if (flags.generate.stop_token)
    MOEC_TRY(check_token("--stop-token", *flags.generate.stop_token, session.manifest()));
  MOEC_ASSIGN(const Prompt prompt, read_prompt(flags.prompt, session.manifest()));
  const Diagnostics notes = note_precision(session.manifest(), options.precision);
  if (!flags.json) print_notes(notes);
  return tags ? find_spans(flags, prompt, session) : write_text(flags, prompt, session, notes);
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

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run",
                                         "Write text with an exported model, or, if it labels "
                                         "tokens, find the labelled spans of a text");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  add_prompt_flags(*command, flags->prompt);
  command->add_option("-n,--max-tokens", flags->generate.max_tokens, "The most tokens to write")
      ->check(whole_from(1))
      ->capture_default_str();
  command->add_option("--stop-token", flags->generate.stop_token,
                      "Stop also when the model chooses this token id (default: none)");
  command->add_flag("--ignore-eos", flags->ignore_eos,
                    "Write on behind the end of text, a token that the checkpoint's config names");
  command
      ->add_option("--temperature", flags->generate.sampler.temperature,
                   "Divide logits by this before sampling; 0 always takes the likeliest token")
      ->check(finite_from_zero())
      ->capture_default_str();
  command
      ->add_option("--top-k", flags->generate.sampler.top_k,
                   "Sample among the k likeliest tokens; 0: among all")
      ->check(whole_from(0))
      ->capture_default_str();
  command->add_option("--seed", flags->generate.sampler.seed, "Seed of the sampling")
      ->check(whole_from(0))
      ->capture_default_str();
  add_session_flags(*command, flags->session);
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
