// moec compare: what the compression of an export costs, on a text.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_comparison.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/compare/compare_exports.h"
#include "frontends/jobs/compare/compare_golden.h"
#include "frontends/jobs/compare/comparison_json.h"
#include "frontends/jobs/compare/group_report.h"
#include "frontends/jobs/inspect/path_kind.h"
#include "frontends/jobs/validate/validate_model.h"

namespace moec {
namespace {

struct CompareFlags {
  CompareOptions options;
  SessionFlags session;
  std::optional<double> min_top1_percent;
  std::string groups, against, prompts;
  bool quiet = false, json = false;
};

Result<CompareOptions> compare_options(const CompareFlags& flags) {
  CompareOptions options = flags.options;
  MOEC_TRY(require_export(options.compared));
  MOEC_ASSIGN(options.session, session_options(flags.session));
  if (flags.min_top1_percent) options.limits.min_top1 = *flags.min_top1_percent / 100;
  if (holds_golden(options.reference)) return options;
  MOEC_TRY(require_export(options.reference));
  if (options.texts.empty() && options.tokens_file.empty())
    return fail("compare.empty", "there is no text to compare with",
                "give --text FILES or --tokens FILE with at least a few thousand tokens");
  return options;
}

// One export with groups of its experts, or with --against.
int run_group_comparison(const CompareFlags& flags) {
  const auto session = session_options(flags.session);
  if (!session) return report_failure(session.error(), flags.json);
  const CompareOptions& given = flags.options;
  Progress progress("compare", flags.quiet || flags.json);
  const auto report = compare_groups(
      {given.reference, flags.against, flags.groups, flags.prompts, given.texts, given.tokens_file,
       given.window, *session,
       [&](uint64_t done, uint64_t total) { progress.advance(done, total, "tokens"); }});
  progress.finish();
  if (!report) return report_failure(report.error(), flags.json);
  flags.json ? print_json(group_report_json(*report)) : print_out("{}", group_table(*report));
  return report->passed ? kExitFine : kExitFellShort;
}

Result<CompareReport> compare_texts(CompareOptions options, bool quiet) {
  Progress progress("compare", quiet);
  options.progress = [&](uint64_t bytes, uint64_t total) {
    progress.advance(bytes, total, "tokens");
  };
  auto report = compare_exports(options);
  progress.finish();
  return report;
}

ComparedShard compared_shard(const ShardReport& shard) {
  ComparedShard compared{shard.shard, {shard.alone, {}}, {}};
  if (shard.cache) compared.cache = {*shard.cache, {}};
  return compared;
}

// A golden has its own text, and so its own windows.
Result<CompareReport> compare_golden(const CompareOptions& options) {
  if (!options.texts.empty() || !options.tokens_file.empty())
    return fail("compare.golden_text", "a golden is compared on its own text",
                "leave out --text and --tokens, or give an export as A",
                {.file = options.reference});
  SessionOptions session = options.session;
  session.top_k = options.top_k;
  MOEC_ASSIGN(const Golden golden, Golden::open(options.reference));
  MOEC_ASSIGN(const ValidationReport validation,
              validate_model(options.compared, golden, session, ThresholdTable::builtin()));
  CompareGoldenOptions compared{options.compared, session, options.limits, {}};
  for (const ShardReport& shard : validation.shards)
    compared.shards.push_back(compared_shard(shard));
  return compare_with_golden(golden, compared);
}

int run_compare(const CompareFlags& flags) {
  if (flags.options.compared.empty()) return run_group_comparison(flags);
  const auto options = compare_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const auto report = holds_golden(options->reference)
                          ? compare_golden(*options)
                          : compare_texts(*options, flags.quiet || flags.json);
  if (!report) return report_failure(report.error(), flags.json);
  flags.json ? print_json(comparison_json(*report)) : print_comparison(*report);
  return report->passed ? kExitFine : kExitFellShort;
}

void add_form_flags_of_b(CLI::App& command, CompareOptions& options, CLI::Option* groups) {
  add_form_flags(command, options.top_k);
  for (const char* flag : {"--top-k", "--battery", "--category", "--confidence"})
    command.get_option(flag)->excludes(groups)->description(
        "Of B: " + command.get_option(flag)->get_description());
}

void add_text_flags(CLI::App& command, CompareOptions& options) {
  CLI::Option* texts = command
                           .add_option("--text", options.texts,
                                       "Text files to compare on, one after the other; for models "
                                       "whose tokens are bytes")
                           ->delimiter(',')
                           ->allow_extra_args(false);
  command
      .add_option("--tokens", options.tokens_file,
                  "A file of token ids instead of text, separated by spaces, lines or commas")
      ->excludes(texts);
  command
      .add_option("--window", options.window,
                  "Tokens that see one another, at most the context of both exports")
      ->check(whole_from(1))
      ->capture_default_str();
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "compare", "Compare the predictions of two exports of a checkpoint on a text");
  auto flags = std::make_shared<CompareFlags>();
  command
      ->add_option(
          "A", flags->options.reference,
          "The reference: an exported folder, or a golden of scripts/make_golden.py, which has its "
          "own text")
      ->required();
  CLI::Option* groups =
      command->add_option("--groups", flags->groups,
                          "A JSON file of groups of experts: what A predicts with each of them");
  CLI::Option* against =
      command->add_option("--against", flags->against,
                          "Another export, whose documents have bounds; with --groups its groups");
  command
      ->add_option("B", flags->options.compared,
                   "Another export of the same checkpoint, e.g. with weights in few bits")
      ->excludes(groups)
      ->excludes(against);
  add_form_flags_of_b(*command, flags->options, groups);
  add_text_flags(*command, flags->options);
  command
      ->add_option("--prompts", flags->prompts,
                   "With --groups or --against: documents of several categories, JSON lines in a "
                   "file, or default")
      ->excludes("B")
      ->excludes("--text")
      ->excludes("--tokens");
  command
      ->add_option("--max-kl", flags->options.limits.max_kl,
                   "Exit with 1 if the mean KL(A||B) exceeds this, in nats")
      ->check(finite_from_zero());
  command
      ->add_option("--min-top1", flags->min_top1_percent,
                   "Exit with 1 if the likeliest next token agrees at fewer positions, in %")
      ->check(finite_from_zero());
  add_session_flags(*command, flags->session);
  command->add_flag("-q,--quiet", flags->quiet, "Print no progress");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer(
      "Example: moec compare out/tinymoe out/tinymoe-4bit --text sample.txt --max-kl 0.01");
  command->callback([flags, &exit_code] { exit_code = run_compare(*flags); });
}

}  // namespace moec
