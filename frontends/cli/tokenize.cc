// moec tokenize: shows the tokens of a text.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/prompt_flags.h"
#include "frontends/cli/flags/source_flag.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/tokenize/tokenize_text.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

struct TokenizeFlags {
  std::string source, prompts;
  PromptFlags prompt;
  bool json = false;
};

void print_tokens(const TokenizedText& text) {
  for (size_t i = 0; i < text.tokens.size(); ++i)
    // As JSON, so that spaces and line breaks of a token are visible.
    print_out("{:>8}  {}\n", text.tokens[i], json_text(text.pieces[i], -1));
  // To stderr, so that stdout has one line per token.
  say("[{} tokens]\n", text.tokens.size());
}

// Prints one line of JSON per prompt.
Status show_suite(const std::string& model, const std::string& prompts) {
  MOEC_ASSIGN(const std::vector<TokenizedText> texts, tokenize_suite(model, prompts));
  for (const TokenizedText& text : texts) print_out("{}\n", json_text(tokenized_json(text), -1));
  return {};
}

Status show(const TokenizeFlags& flags) {
  // A suite is printed as JSON lines even without --json, because its texts need delimiters.
  if (!flags.prompts.empty()) return show_suite(flags.source, flags.prompts);
  MOEC_ASSIGN(const std::optional<std::string> given, read_prompt_text(flags.prompt));
  if (!given && flags.prompt.tokens.empty())
    return fail("run.no_prompt", "no text was given to tokenize",
                "pass --prompt TEXT, --prompt-file FILE, --prompts SUITE or --prompt-tokens IDS");
  // Token ids are the input if there is no text: the flags exclude one another.
  MOEC_ASSIGN(const TokenizedText text, given ? tokenize(flags.source, *given)
                                              : detokenize(flags.source, flags.prompt.tokens));
  if (flags.json)
    print_json(report_json(true, tokenized_json(text)));
  else
    print_tokens(text);
  return {};
}

}  // namespace

void add_tokenize_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "tokenize", "Tokenize a text, or decode token ids, with the tokenizer of a model");
  auto flags = std::make_shared<TokenizeFlags>();
  add_source(*command, "MODEL", flags->source,
             "A checkpoint folder, a GGUF file or an exported folder")
      ->required();
  add_prompt_flags(*command, flags->prompt);
  command->add_option("--prompts", flags->prompts,
                      "Tokenize each prompt of a suite and print one line of JSON per prompt; "
                      "default: the bundled suite");
  command->add_flag("--json", flags->json, "Print the tokens and their texts as JSON");
  command->footer("Example: moec tokenize models/tinymoe --prompt \"def f(x):\"");
  command->callback([flags, &exit_code] {
    const Status status = show(*flags);
    exit_code = status ? kExitFine : report_failure(status.error(), flags->json);
  });
}

}  // namespace moec
