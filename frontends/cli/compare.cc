// moec compare: measures on a text how much the predictions of an export differ from a reference.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/node_data_flag.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/compare/compare_exports.h"
#include "frontends/jobs/compare/compare_golden.h"
#include "frontends/jobs/compare/compare_groups.h"
#include "frontends/jobs/compare/compare_report.h"
#include "frontends/jobs/compare/comparison_json.h"
#include "frontends/jobs/compare/group_report.h"
#include "frontends/jobs/inspect/path_kind.h"
#include "frontends/jobs/validate/validate_model.h"
#include "ir/base/worst_rows.h"

namespace moec {

namespace {

std::string with_error(const WindowMean& value, double factor, int digits) {
  std::string text = fmt::format("{:.{}f}", factor * value.mean, digits);
  // A single window has no standard error.
  if (value.standard_error)
    text += fmt::format(" +- {:.{}f}", factor * *value.standard_error, digits);
  return text;
}

void print_predictions(const CompareReport& report) {
  const PredictionComparison& found = report.predictions;
  print_out("{} tokens in {} windows of {}{}\n", found.tokens + found.nonfinite, report.windows,
            report.window,
            report.unused_tokens > 0 ? fmt::format(", {} left over", report.unused_tokens) : "");
  if (!report.top_k.empty()) print_out("B             {}\n", report.top_k);
  if (report.drops) print_out("B             {}\n", report.drops->describe());
  print_out("KL(A||B)      {} nats, p99 {:.6f}\n", with_error(found.kl, 1, 6), found.kl_p99);
  print_out("same top-1    {} %\n", with_error(found.top1, 100, 2));
  if (!found.bits) return;
  print_out("bits per {}  A {}, B {}, B - A {}\n", report.bytes ? "byte" : "token",
            with_error(found.bits->reference, 1, 5), with_error(found.bits->compared, 1, 5),
            with_error(found.bits->difference, 1, 5));
}

std::string row_of(const std::string& name, const ValueComparison& c) {
  return fmt::format("{:<14} {:7.1f}  {:<11}  {:9.2e}  {:>7}\n", name, c.all.sqnr_db,
                     c.mean_cosine ? fmt::format("{:.9f}", *c.mean_cosine) : "-", c.all.relative_l2,
                     c.all.nonfinite);
}

void print_shards(const CompareReport& report) {
  // Exports that are cut differently have no matching shards.
  if (report.shards.empty()) return;
  print_out("each shard of B on the inputs of A's shard\n{:<14} {:>7}  {:<11}  {:<9}  {}\n",
            "shard", "SQNR dB", "mean cosine", "rel L2", "NaN/Inf");
  std::vector<RankedRow> rows;
  for (const ComparedShard& shard : report.shards) {
    std::string text = row_of(shard.shard, shard.output);
    if (shard.cache) text += row_of("  new K, V", *shard.cache);
    rows.push_back({std::move(text), shard.output.all.relative_l2});
  }
  print_out("{}", worst_rows(rows, kTableRows, "shards with the largest error"));
}

double percent_of(uint64_t part, uint64_t whole) {
  // A layer without tokens has no flipped sets.
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print_routers(const CompareReport& report) {
  if (report.routers.empty()) return;
  print_out("routers\n{:<7} {:<14} {:<13} {}\n", "layer", "flipped sets", "weight moved",
            "never routed");
  std::vector<RankedRow> rows;
  for (const auto& [layer, routing] : report.routers)
    rows.push_back(
        {fmt::format("{:<7} {:<14} {:<13} {}\n", layer,
                     fmt::format("{:.2f} %", percent_of(routing.flipped_sets, routing.tokens)),
                     fmt::format("{:.3f} %", 100 * routing.moved_weight),
                     short_list(routing.never_routed(), ", ")),
         routing.moved_weight});
  print_out("{}", worst_rows(rows, kTableRows, "layers with the most weight moved"));
}

// Adds the median and the worst of a layer's experts that at least one token chose.
void add_experts_of_layer(std::vector<ComparedExpert> experts, std::vector<RankedRow>& rows) {
  // Experts without tokens have no error. As zeros, they would lower the median.
  std::erase_if(experts, [](const ComparedExpert& expert) { return expert.tokens == 0; });
  if (experts.empty()) return;
  std::sort(experts.begin(), experts.end(), [](const auto& a, const auto& b) {
    return a.output.relative_l2 < b.output.relative_l2;
  });
  const ComparedExpert &median = experts[experts.size() / 2], &worst = experts.back();
  rows.push_back({fmt::format("{:<7} {:<15.2e} {:<13} {:<9.2e} {}\n", worst.id.layer,
                              median.output.relative_l2, worst.id.expert, worst.output.relative_l2,
                              worst.tokens),
                  worst.output.relative_l2});
}

void print_experts(const CompareReport& report) {
  if (report.experts.empty()) return;
  print_out("each expert of B on the inputs of A's expert\n{:<7} {:<15} {:<13} {:<9} {}\n", "layer",
            "median rel L2", "worst expert", "rel L2", "tokens");
  std::map<int64_t, std::vector<ComparedExpert>> layers;
  for (const ComparedExpert& expert : report.experts) layers[expert.id.layer].push_back(expert);
  std::vector<RankedRow> rows;
  for (const auto& [layer, experts] : layers) add_experts_of_layer(experts, rows);
  print_out("{}", worst_rows(rows, kTableRows, "layers with the worst experts"));
}

// Prints the predictions, tables of shards, experts and routers, the findings and the verdict.
void print_comparison(const CompareReport& report) {
  print_predictions(report);
  print_shards(report);
  print_experts(report);
  print_routers(report);
  for (const Diagnostic& finding : report.findings) print_out("{}\n", render(finding));
  print_out("{}\n", report.passed ? "PASSED" : "FELL SHORT");
}

struct CompareFlags {
  CompareOptions options;
  SessionFlags session;
  std::optional<double> min_top1_percent;
  std::string groups, against, prompts, part;
  std::vector<std::string> join;
  UserOutput node_data;
  bool quiet = false, json = false;
};

Result<CompareOptions> compare_options(const CompareFlags& flags) {
  CompareOptions options = flags.options;
  MOEC_TRY(require_export(options.compared));
  // --activations and --cache-dtype apply to B only, so that their errors show.
  SessionFlags exact = flags.session;
  exact.activations = exact.cache_dtype = "f32";
  MOEC_ASSIGN(options.session, session_options(exact));
  MOEC_ASSIGN(const SessionOptions of_b, session_options(flags.session));
  // Otherwise both exports share an engine, because each engine has threads.
  if (flags.session.activations != exact.activations) options.engine = of_b.engine;
  options.cache_dtype = of_b.cache_dtype;
  MOEC_TRY(check_node_data(flags.node_data, options.compared, {kErrorOverlay}));
  options.inside = !flags.node_data.path.empty();
  // The flag is a percentage, the limit a share.
  if (flags.min_top1_percent) options.limits.min_top1 = *flags.min_top1_percent / 100;
  // A golden contains its own text, so the checks below do not apply.
  if (holds_golden(options.reference)) return options;
  MOEC_TRY(require_export(options.reference));
  if (options.texts.empty() && options.tokens_file.empty())
    return fail("compare.empty", "no text was given for the comparison",
                "pass --text FILES or --tokens FILE with at least a few thousand tokens");
  return options;
}

Result<std::optional<JobShare>> part_of(const CompareFlags& flags) {
  if (flags.part.empty()) return std::nullopt;
  if (flags.groups.empty() && flags.against.empty())
    return fail("compare.nothing", "--part divides the documents of --groups or --against",
                "pass --groups FILE or --against OTHER_OUT");
  return parse_share(flags.part, "compare.part");
}

// Compares one export with itself restricted to --groups, or with --against.
int run_group_comparison(const CompareFlags& flags) {
  // Does not use compare_options(), which requires B and a text.
  const auto session = session_options(flags.session);
  if (!session) return report_failure(session.error(), flags.json);
  const CompareOptions& given = flags.options;
  const auto part = part_of(flags);
  if (!part) return report_failure(part.error(), flags.json);
  Progress progress("compare", flags.quiet, "tokens");
  const auto report = compare_groups(
      {given.reference, flags.against, flags.groups, flags.prompts, given.texts, given.tokens_file,
       given.window, *part, flags.join, *session,
       [&](uint64_t done, uint64_t total) { progress.advance(done, total, "groups"); }});
  progress.finish();
  if (!report) return report_failure(report.error(), flags.json);
  flags.json ? print_json(group_report_json(*report)) : print_out("{}", group_table(*report));
  return report->passed ? kExitFine : kExitFellShort;
}

Result<CompareReport> compare_texts(CompareOptions options, bool quiet) {
  Progress progress("compare", quiet, "tokens");
  options.progress = [&](uint64_t tokens, uint64_t total) {
    progress.advance(tokens, total, "windows");
  };
  auto report = compare_exports(options);
  progress.finish();
  return report;
}

ComparedShard compared_shard(const ShardReport& shard) {
  ComparedShard compared{shard.shard, {shard.alone, {}}, {}};
  // Absent for shards that write no rows of a cache.
  if (shard.cache) compared.cache = {*shard.cache, {}};
  return compared;
}

// A golden defines the text and its windows, so flags for a text are refused.
Result<CompareReport> compare_golden(const CompareOptions& options, bool quiet) {
  if (!options.texts.empty() || !options.tokens_file.empty())
    return fail("compare.golden_text", "a golden is compared on its own text",
                "omit --text and --tokens, or pass an export as A", {.file = options.reference});
  // A copy, because --top-k applies only to B, and the golden replaces the run of A.
  SessionOptions session = options.session;
  session.top_k = options.top_k;
  if (options.engine) session.engine = options.engine;
  session.cache_dtype = options.cache_dtype;
  MOEC_ASSIGN(const Golden golden, Golden::open(options.reference));
  Progress alone("compare", quiet, "shard runs");
  MOEC_ASSIGN(const ValidationReport validation,
              validate_model(options.compared, golden, session, ThresholdTable::builtin(),
                             alone.callback()));
  alone.finish();
  Progress chained("compare", quiet, "tokens");
  CompareGoldenOptions compared{options.compared, session, options.limits, {}, chained.callback()};
  for (const ShardReport& shard : validation.shards)
    compared.shards.push_back(compared_shard(shard));
  MOEC_ASSIGN(CompareReport report, compare_with_golden(golden, compared));
  report.inside = validation.inside;
  return report;
}

int run_compare(const CompareFlags& flags) {
  // Without B, A is compared with itself or with --against.
  if (flags.options.compared.empty()) return run_group_comparison(flags);
  const auto options = compare_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const auto report = holds_golden(options->reference) ? compare_golden(*options, flags.quiet)
                                                       : compare_texts(*options, flags.quiet);
  if (!report) return report_failure(report.error(), flags.json);
  const Status written = write_errors(flags.node_data, report->inside, options->compared,
                                      "relative L2 error of B against A");
  if (!written) return report_failure(written.error(), flags.json);
  flags.json ? print_json(comparison_json(*report)) : print_comparison(*report);
  return report->passed ? kExitFine : kExitFellShort;
}

// Restricts flags to B, which comparisons by group or by document do not have.
void apply_flags_to_b(CLI::App& command, CLI::Option* groups, CLI::Option* against) {
  for (const char* flag : {"--top-k", "--battery", "--category", "--confidence", "--activations",
                           "--cache-dtype", "--node-data"})
    command.get_option(flag)->excludes(groups)->excludes(against)->description(
        "For B: " + command.get_option(flag)->get_description());
}

void add_text_flags(CLI::App& command, CompareOptions& options) {
  CLI::Option* texts =
      command
          .add_option("--text", options.texts,
                      "Text files for the comparison: concatenated, or with --groups "
                      "or --against one document each")
          ->delimiter(',')
          ->allow_extra_args(false);
  command
      .add_option("--tokens", options.tokens_file,
                  "A file of token ids instead of text, separated by spaces, newlines or commas")
      ->excludes(texts);
  command
      .add_option("--window", options.window,
                  "Tokens per window, at most the context of both exports; attention does not "
                  "cross windows")
      ->check(whole_from(1))
      ->capture_default_str();
}

void add_part_flags(CLI::App& command, CompareFlags& flags) {
  CLI::Option* part =
      command
          .add_option("--part", flags.part,
                      "With --groups or --against: compare only part I/N of the documents, with I "
                      "from 0; --json also prints the scores of each document")
          ->excludes("B");
  command
      .add_option("--join", flags.join,
                  "With --groups or --against: reports of parts (--part I/N --json), separated by "
                  "commas, whose documents are not run again")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes("B")
      ->excludes(part);
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "compare", "Compare the predictions of two exports of a checkpoint on a text");
  auto flags = std::make_shared<CompareFlags>();
  command
      ->add_option("A", flags->options.reference,
                   "The reference: an exported folder, or a golden of scripts/make_golden.py, "
                   "which contains its own text")
      ->required();
  CLI::Option* groups = command->add_option(
      "--groups", flags->groups,
      "A JSON file of groups of experts: compare A with itself restricted to each group");
  CLI::Option* against =
      command->add_option("--against", flags->against,
                          "Compare A with this export by document, with confidence bounds; "
                          "--groups then restricts this export");
  command
      ->add_option("B", flags->options.compared,
                   "Another export of the same checkpoint, e.g. with quantized weights")
      ->excludes(groups)
      ->excludes(against);
  add_form_flags(*command, flags->options.top_k);
  add_text_flags(*command, flags->options);
  command
      ->add_option(
          "--prompts", flags->prompts,
          "With --groups or --against: documents by category, default or a file of JSON lines")
      // Only run_group_comparison() reports by the categories of a suite.
      ->excludes("B")
      ->excludes("--text")
      ->excludes("--tokens");
  add_part_flags(*command, *flags);
  command
      ->add_option("--max-kl", flags->options.limits.max_kl,
                   "Exit with 1 if the mean KL(A||B) exceeds this number of nats")
      ->check(finite_from_zero());
  command
      ->add_option("--min-top1", flags->min_top1_percent,
                   "Exit with 1 if the most likely next token agrees at less than this percentage "
                   "of positions")
      ->check(finite_from_zero());
  add_session_flags(*command, flags->session);
  add_node_data_flag(*command, flags->node_data, "the error of each op");
  apply_flags_to_b(*command, groups, against);
  command->add_flag("-q,--quiet", flags->quiet, "Print no progress");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer(
      "Example: moec compare out/tinymoe out/tinymoe-4bit --text sample.txt --max-kl 0.01");
  command->callback([flags, &exit_code] { exit_code = run_compare(*flags); });
}

}  // namespace moec
