// moec validate: compares the results of the emitted files with golden results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/chat_flags.h"
#include "frontends/cli/flags/engine_flags.h"
#include "frontends/cli/flags/node_data_flag.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/cli/python_script.h"
#include "frontends/jobs/validate/record_validation.h"
#include "frontends/jobs/validate/validate_model.h"
#include "frontends/jobs/validate/validation_json.h"
#include "ir/base/regular_file.h"
#include "ir/base/worst_rows.h"

namespace moec {

namespace {

std::string percent(uint64_t part, uint64_t whole) {
  // Nothing was counted, so a percentage would be undefined.
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string row_of(const std::string& name, const Comparison& c, bool passed) {
  return fmt::format("{:<14} {:.9f}  {:9.2e}  {:9.2e}  {:7.1f}  {:9.2e} @{:<6} {:>8} {:9.2e}  {}\n",
                     name, c.cosine, c.relative_l2, c.worst_row, c.sqnr_db, c.max_abs, c.max_index,
                     c.nonfinite, c.headroom, passed ? "ok" : "BELOW");
}

// Shards below their thresholds are worse than all others.
double badness(const Comparison& c, bool passed) {
  return passed ? c.relative_l2 : c.relative_l2 + 1e30;
}

void print_alone(const ValidationReport& report) {
  std::vector<RankedRow> rows;
  for (const ShardReport& shard : report.shards) {
    std::string text = row_of(shard.shard, shard.alone, shard.passed);
    // The new rows of the cache are compared separately, but the verdict is that of the shard.
    if (shard.cache) text += row_of("  new K, V", *shard.cache, shard.passed);
    rows.push_back({std::move(text), badness(shard.alone, shard.passed)});
  }
  print_out("{}", worst_rows(rows, kTableRows, "shards with the largest error"));
}

void print_routers(const ValidationReport& report) {
  print_out("routers\n{:<14} {:<12} {:<13} {:<12} {}\n", "shard", "same experts", "weight moved",
            "least margin", "tokens within the logit error");
  std::vector<RankedRow> rows;
  for (const ShardReport& shard : report.shards)
    // Only shards that route have this comparison.
    if (shard.router)
      rows.push_back({fmt::format("{:<14} {:<12} {:<13.2e} {:<12.2e} {}\n", shard.shard,
                                  percent(shard.router->same_set, shard.router->tokens),
                                  shard.router->moved_weight, shard.router->min_margin,
                                  shard.router->close_tokens),
                      shard.router->moved_weight});
  print_out("{}", worst_rows(rows, kTableRows, "routers with the most weight moved"));
}

void print_chained(const ValidationReport& report) {
  print_out("chained from tokens to logits\n");
  std::vector<RankedRow> rows;
  // Chained shards have no thresholds, because errors of earlier shards add up.
  for (const ShardReport& shard : report.shards)
    rows.push_back({row_of(shard.shard, shard.chained, true), shard.chained.relative_l2});
  print_out("{}", worst_rows(rows, kTableRows, "shards with the largest error"));
}

// Prints one line of thresholds per bit width among the shards, the widest first.
void print_thresholds(const ValidationReport& report) {
  // Shards of one bit width share their thresholds, so later ones only repeat the entry.
  std::map<int64_t, Thresholds, std::greater<>> by_bits;
  for (const ShardReport& shard : report.shards) by_bits[shard.thresholds.bits] = shard.thresholds;
  for (const auto& [bits, thresholds] : by_bits) {
    print_out("thresholds for {:>2} bits: cosine >= {}, relative L2 <= {}", bits, thresholds.cosine,
              thresholds.relative_l2);
    // Infinite means that there is no limit per row.
    if (std::isfinite(thresholds.worst_row)) print_out(", per row <= {}", thresholds.worst_row);
    print_out("\n");
  }
}

// Prints tables of the shards run alone, of the routers and of the chained shards, then the
// verdict.
void print_validation(const ValidationReport& report) {
  print_out("each shard alone on golden inputs\n");
  print_thresholds(report);
  print_out("{:<14} {:<11}  {:<9}  {:<9}  {:<7}  {:<17} {:>8} {:<9}\n", "shard", "cosine", "rel L2",
            "worst row", "SQNR dB", "max error", "NaN/Inf", "headroom");
  print_alone(report);
  print_routers(report);
  print_chained(report);
  print_out("logits: top-1 {} of {} tokens, KL {:.2e} nats\n",
            percent(report.logits.same_top1, report.logits.tokens), report.logits.tokens,
            report.logits.mean_kl);
  if (report.greedy_wanted > 0)
    print_out("greedy text: {} of {} tokens equal\n", report.greedy_equal, report.greedy_wanted);
  if (!report.top_k.empty()) print_out("{}\n", report.top_k);
  if (report.drops) print_out("capacity: {}\n", report.drops->describe());
  // With variants, report.top_k already explains why routers need not agree.
  if (!report.exact && report.top_k.empty())
    print_out("the export's routing is inexact: routers need not agree\n");
  print_out("{}\n", report.passed ? "PASSED" : "FELL SHORT");
}

// A Python package, which runs the graph of the whole model or a pipeline of shards; moec's own
// engines run shards.
constexpr const char* kGenai = "onnxruntime-genai";

struct ValidateFlags {
  std::string folder, golden, thresholds, python = default_python();
  SessionFlags session;
  // The reference executor has the summation order that is used for comparisons with goldens.
  EngineFlags engine{.engine = "reference"};
  UserOutput node_data;
  bool json = false, record = false;
};

Status check_paths(const ValidateFlags& flags) {
  MOEC_TRY(require_export(flags.folder));
  MOEC_TRY(check_node_data(flags.node_data, flags.folder, {kErrorOverlay}));
  return require_golden(flags.golden);
}

Result<SessionOptions> options_of(const ValidateFlags& flags) {
  MOEC_ASSIGN(SessionOptions options, session_options(flags.session));
  MOEC_ASSIGN(options.engine, open_engine(flags.engine, flags.session, options.engine));
  if (flags.record && options.engine)
    return fail("engine.option",
                fmt::format("--record requires results of the reference executor, not of engine {}",
                            options.engine->traits().name),
                "omit --record or --engine");
  return options;
}

Result<ValidationReport> validate(const ValidateFlags& flags) {
  MOEC_TRY(check_paths(flags));
  MOEC_ASSIGN(const SessionOptions options, options_of(flags));
  MOEC_ASSIGN(const Golden golden, Golden::open(flags.golden));
  ThresholdTable thresholds = ThresholdTable::builtin();
  if (!flags.thresholds.empty()) {
    MOEC_ASSIGN(thresholds, ThresholdTable::read(flags.thresholds));
  }
  Progress progress("validate", false, "shard runs");
  MOEC_ASSIGN(ValidationReport report,
              validate_model(flags.folder, golden, options, thresholds, progress.callback()));
  progress.finish();
  // Also writes and records a validation that fell short.
  MOEC_TRY(write_errors(flags.node_data, report.inside, flags.folder,
                        "relative L2 error against the golden"));
  if (flags.record) MOEC_TRY(record_validation(report, flags.folder));
  return report;
}

// Every other flag configures moec's own engines.
Status check_genai_flags(const CLI::App& command) {
  const std::set<std::string> known = {"OUT", "--golden", "--engine", "--python", "--json"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && !known.contains(name))
      return fail("engine.option", fmt::format("engine {} has no option {}", kGenai, name),
                  fmt::format("omit {}, or omit --engine", name));
  }
  return {};
}

// Returns the exit code of the script, which prints the figures.
Result<int> validate_with_genai(const ValidateFlags& flags, const CLI::App& command) {
  MOEC_TRY(check_genai_flags(command));
  MOEC_TRY(check_paths(flags));
  if (!file_exists(flags.folder + "/genai_config.json"))
    return fail("validate.genai",
                fmt::format("{} has no genai_config.json, which {} requires", flags.folder, kGenai),
                "export with --target ort-genai or --compat genai");
  MOEC_ASSIGN(const std::string script,
              find_script("scripts/validate_with_genai.py", "run moec in its checkout"));
  std::vector<std::string> words = {flags.folder, "--golden", flags.golden};
  if (flags.json) words.emplace_back("--json");
  return run_script({flags.python, script, "validate.engine",
                     fmt::format("if a package is missing, install it with {} -m pip install numpy "
                                 "onnxruntime-genai, or select another interpreter with --python",
                                 flags.python)},
                    words);
}

int run_genai(const ValidateFlags& flags, const CLI::App& command) {
  const Result<int> code = validate_with_genai(flags, command);
  return code ? *code : report_failure(code.error(), flags.json);
}

int run_validate(const ValidateFlags& flags) {
  const auto report = validate(flags);
  if (!report) return report_failure(report.error(), flags.json);
  // The JSON report contains the notes.
  if (!flags.json) print_notes(report->notes);
  flags.json ? print_json(validation_json(*report)) : print_validation(*report);
  // A missed threshold differs from bad input: scripts distinguish them by the exit code.
  return report->passed ? kExitFine : kExitFellShort;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "validate", "Run the emitted files and compare the results with golden results");
  auto flags = std::make_shared<ValidateFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  command
      ->add_option("--golden", flags->golden,
                   "Folder of golden results, made by scripts/make_golden.py")
      ->required();
  command->add_option("--thresholds", flags->thresholds,
                      "A file of thresholds per bit width, with the fields of "
                      "frontends/jobs/validate/thresholds.json (default: that file)");
  add_session_flags(*command, flags->session);
  add_engine_flags(*command, flags->engine,
                   {kGenai,
                    "folders of --target ort-genai or --compat genai, in the Python package of "
                    "this name"});
  command->add_option("--python", flags->python,
                      "With --engine onnxruntime-genai: Python interpreter with that package "
                      "(default: the environment variable MOEC_PYTHON, else python3)");
  add_mask_flag(*command, flags->session.expert_mask);
  add_form_flags(*command, flags->session.top_k);
  add_node_data_flag(*command, flags->node_data,
                     "the errors of the values that the golden contains");
  command->add_flag("--record", flags->record, "Record the results in the manifest of the export");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec validate out/tinymoe --golden tests/golden/tinymoe");
  command->callback([flags, command, &exit_code] {
    exit_code = flags->engine.engine == kGenai ? run_genai(*flags, *command) : run_validate(*flags);
  });
}

}  // namespace moec
