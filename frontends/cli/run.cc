// moec run: writes text with an exported model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/cli.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/sampler.h"
#include "frontends/cli/session.h"
#include "frontends/cli/tokenizer.h"

namespace moec {
namespace {

struct RunFlags {
  std::string folder, prompt, precision = "f32";
  std::vector<int64_t> prompt_tokens;
  int64_t max_tokens = 64, stop_token = -1;
  SamplerOptions sampler;
  bool json = false;
};

struct Generated {
  std::vector<int64_t> prompt, tokens;
  double prefill_seconds = 0, decode_seconds = 0;
  int64_t skipped_steps = 0;
  bool text = false;  // tokens are bytes of text
};

Result<std::vector<int64_t>> prompt_of(const RunFlags& flags, const Manifest& manifest) {
  if (!flags.prompt_tokens.empty()) return flags.prompt_tokens;
  if (manifest.tokenizer == TokenizerKind::none)
    return fail("run.no_tokenizer", "the model's tokens are not bytes, so text cannot be encoded",
                "give token ids: --prompt-tokens 1,2,3");
  if (flags.prompt.empty())
    return fail("run.no_prompt", "there is nothing to start from",
                "give --prompt TEXT or --prompt-tokens IDS");
  return encode_bytes(flags.prompt);
}

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

Result<Generated> generate(const RunFlags& flags) {
  MOEC_ASSIGN(Session session, Session::open(flags.folder, {.precision = flags.precision == "f16"
                                                                             ? Precision::f16
                                                                             : Precision::f32}));
  Generated generated;
  generated.text = session.manifest().tokenizer == TokenizerKind::bytes;
  MOEC_ASSIGN(generated.prompt, prompt_of(flags, session.manifest()));
  for (int64_t token : generated.prompt) show(generated, token, flags.json);
  Sampler sampler(flags.sampler);
  std::vector<int64_t> feed = generated.prompt;
  const int64_t room =
      session.manifest().build.context - static_cast<int64_t>(generated.prompt.size()) + 1;
  for (int64_t i = 0; i < std::min(flags.max_tokens, room); ++i) {
    const auto start = std::chrono::steady_clock::now();
    MOEC_ASSIGN(const Rows logits, session.feed(feed));
    (i == 0 ? generated.prefill_seconds : generated.decode_seconds) += seconds_since(start);
    const auto rows = static_cast<int64_t>(logits.data.size()) / logits.columns;
    const int64_t token = sampler.next(logits.row(rows - 1));
    if (token == flags.stop_token) break;
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
                                 {"prefill_seconds", generated.prefill_seconds},
                                 {"decode_seconds", generated.decode_seconds},
                                 {"decode_tokens_per_second", decode_rate(generated)},
                                 {"skipped_steps", generated.skipped_steps}};
  fmt::print("{}\n", json.dump(2));
}

int run_run(const RunFlags& flags) {
  auto generated = generate(flags);
  if (!generated) return report_failure(generated.error(), flags.json);
  if (flags.json) {
    print_json(*generated);
    return kExitFine;
  }
  fmt::print("\n");
  fmt::print(stderr, "[{} prompt tokens in {:.2f} s, {} tokens at {:.1f} tokens/s]\n",
             generated->prompt.size(), generated->prefill_seconds, generated->tokens.size(),
             decode_rate(*generated));
  return kExitFine;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "Write text with an exported model");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  command->add_option("-p,--prompt", flags->prompt, "Text to go on from (byte models)");
  command->add_option("--prompt-tokens", flags->prompt_tokens, "Token ids to go on from")
      ->delimiter(',');
  command->add_option("-n,--max-tokens", flags->max_tokens, "Tokens to write")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--stop-token", flags->stop_token, "Stop when this token is chosen");
  command->add_option("--temperature", flags->sampler.temperature, "0: the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--top-k", flags->sampler.top_k, "Sample among the k likeliest (0: all)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", flags->sampler.seed, "Of the sampling")->capture_default_str();
  command->add_option("--precision", flags->precision, "f32, or f16 with rounding after every op")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print tokens and times as JSON");
  command->footer("Example: moec run out/tinymoe --prompt \"def \" --max-tokens 80");
  command->callback([flags, &exit_code] { exit_code = run_run(*flags); });
}

}  // namespace moec
