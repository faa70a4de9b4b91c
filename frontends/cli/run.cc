// moec run: writes text with an exported model, or finds spans in one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/runtime/prompt.h"
#include "backends/runtime/sampler.h"
#include "backends/runtime/session.h"
#include "backends/runtime/tag_text.h"
#include "backends/runtime/tokenizer.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_spans.h"
#include "frontends/formats/read_shard.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

struct RunFlags {
  std::string folder, precision = "f32";
  PromptFlags prompt;
  int64_t max_tokens = 64;
  std::optional<int64_t> stop_token;
  SamplerOptions sampler;
  bool redact = false, json = false;
  std::vector<std::string> given;  // of those that only one of the tasks has
};

// Flags that choose the text that is written, and those that choose what is done with spans.
constexpr std::array kWritingFlags = {"--max-tokens", "--stop-token", "--temperature", "--top-k",
                                      "--seed"};
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
                  "leave it out");
  }
  return {};
}

struct Generated {
  std::vector<int64_t> prompt, tokens;
  double prefill_seconds = 0, decode_seconds = 0;
  int64_t skipped_steps = 0;
  bool text = false;               // tokens are bytes of text
  const char* end = "max_tokens";  // why it ends: this, "stop_token" or "context"
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Prints the text as it comes, unless JSON is wanted.
void show(const Generated& generated, int64_t token, bool json) {
  if (json) return;
  if (generated.text)
    fmt::print("{}", decode_bytes({token}));
  else
    fmt::print("{} ", token);
  std::fflush(stdout);
}

Result<Generated> generate(const RunFlags& flags, const Prompt& prompt, Session& session) {
  Generated generated;
  generated.text = session.manifest().tokenizer == TokenizerKind::bytes;
  generated.prompt = prompt.tokens;
  // Of the last token no more is asked than what comes behind it.
  const int64_t room = session.manifest().build.context - std::ssize(generated.prompt) + 1;
  if (room < 1)
    return fail("session.context_full",
                fmt::format("the prompt of {} tokens exceeds the context of {} that was exported",
                            generated.prompt.size(), session.manifest().build.context),
                "export with a larger --context, or give a shorter prompt");
  for (int64_t token : generated.prompt) show(generated, token, flags.json);
  Sampler sampler(flags.sampler);
  std::vector<int64_t> feed = generated.prompt;
  if (room < flags.max_tokens) generated.end = "context";
  for (int64_t i = 0; i < std::min(flags.max_tokens, room); ++i) {
    const auto start = std::chrono::steady_clock::now();
    MOEC_ASSIGN(const Rows logits, session.feed(feed));
    (i == 0 ? generated.prefill_seconds : generated.decode_seconds) += seconds_since(start);
    const auto rows = std::ssize(logits.data) / logits.columns;
    const int64_t token = sampler.next(logits.row(rows - 1));
    if (token == flags.stop_token) {
      generated.end = "stop_token";
      break;
    }
    generated.tokens.push_back(token);
    show(generated, token, flags.json);
    feed = {token};
  }
  generated.skipped_steps = session.skipped_steps();
  return generated;
}

double decode_rate(const Generated& generated) {
  const auto decoded = static_cast<double>(generated.tokens.size()) - 1;
  return generated.decode_seconds > 0 ? decoded / generated.decode_seconds : 0;
}

void print_json(const Generated& generated) {
  nlohmann::ordered_json json = {{"ok", true},
                                 {"prompt", generated.prompt},
                                 {"tokens", generated.tokens},
                                 {"end", generated.end},
                                 {"prefill_seconds", generated.prefill_seconds},
                                 {"decode_seconds", generated.decode_seconds},
                                 {"decode_tokens_per_second", decode_rate(generated)},
                                 {"skipped_steps", generated.skipped_steps}};
  fmt::print("{}\n", json_text(json));
}

Status write_text(const RunFlags& flags, const Prompt& prompt, Session& session) {
  MOEC_ASSIGN(const Generated generated, generate(flags, prompt, session));
  if (flags.json) {
    print_json(generated);
    return {};
  }
  fmt::print("\n");
  fmt::print(stderr, "[{} prompt tokens in {:.2f} s, {} tokens at {:.1f} tokens/s]\n",
             generated.prompt.size(), generated.prefill_seconds, generated.tokens.size(),
             decode_rate(generated));
  if (generated.end == std::string_view("context"))
    fmt::print(stderr, "[the context of {} is full: export with a larger --context for more]\n",
               session.manifest().build.context);
  return {};
}

Status find_spans(const RunFlags& flags, const Prompt& prompt, Session& session) {
  if (flags.redact && !prompt.text)
    return fail("run.no_text", "there is no text to redact, only token ids",
                "give --prompt TEXT or --prompt-file FILE, or leave --redact out");
  MOEC_ASSIGN(TaggedText tagged, tag_text(session, prompt.tokens));
  if (prompt.text) widen_to_characters(*prompt.text, tagged.spans);
  if (flags.json)
    print_spans_json(prompt, tagged, flags.redact);
  else if (flags.redact)
    fmt::print("{}{}", redact(*prompt.text, tagged.spans), flags.prompt.file.empty() ? "\n" : "");
  else
    print_spans(prompt, tagged);
  return {};
}

Status run(const RunFlags& flags) {
  const Precision precision = flags.precision == "f16" ? Precision::f16 : Precision::f32;
  MOEC_ASSIGN(Session session, Session::open(flags.folder, read_shard, {.precision = precision}));
  const bool tags = session.manifest().tagging.has_value();
  MOEC_TRY(check_flags(flags, tags));
  if (flags.stop_token)
    MOEC_TRY(check_token("--stop-token", *flags.stop_token, session.manifest()));
  MOEC_ASSIGN(const Prompt prompt, read_prompt(flags.prompt, session.manifest()));
  return tags ? find_spans(flags, prompt, session) : write_text(flags, prompt, session);
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
  CLI::App* command = app.add_subcommand(
      "run", "Write text with an exported model, or find spans where it labels tokens");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  add_prompt_flags(*command, flags->prompt);
  command->add_option("-n,--max-tokens", flags->max_tokens, "Tokens to write")
      ->check(whole_from(1))
      ->capture_default_str();
  command->add_option("--stop-token", flags->stop_token, "Stop when this token is chosen");
  command->add_option("--temperature", flags->sampler.temperature, "0: the likeliest token")
      ->check(finite_from_zero())
      ->capture_default_str();
  command->add_option("--top-k", flags->sampler.top_k, "Sample among the k likeliest (0: all)")
      ->check(whole_from(0))
      ->capture_default_str();
  command->add_option("--seed", flags->sampler.seed, "Of the sampling")
      ->check(whole_from(0))
      ->capture_default_str();
  command->add_option("--precision", flags->precision, "f32, or f16 with rounding after every op")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  command->add_flag("--redact", flags->redact,
                    "Spans: print the text with <LABEL> in place of each");
  command->add_flag("--json", flags->json, "Print tokens and times, or spans, as JSON");
  command->footer("Example: moec run out/tinymoe --prompt \"def \" --max-tokens 80");
  command->callback([flags, command, &exit_code] {
    note_given(*command, kWritingFlags, *flags);
    note_given(*command, kTaggingFlags, *flags);
    exit_code = run_run(*flags);
  });
}

}  // namespace moec
