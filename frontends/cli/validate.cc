// moec validate: compares what the emitted files compute with golden results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/engine_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/validate/record_validation.h"
#include "frontends/jobs/validate/validate_model.h"
#include "frontends/jobs/validate/validation_json.h"

namespace moec {

namespace {

std::string percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_row(const std::string& name, const Comparison& c, bool passed) {
  print_out("{:<14} {:.9f}  {:9.2e}  {:9.2e}  {:7.1f}  {:9.2e} @{:<6} {:>8} {:9.2e}  {}\n", name,
            c.cosine, c.relative_l2, c.worst_row, c.sqnr_db, c.max_abs, c.max_index, c.nonfinite,
            c.headroom, passed ? "ok" : "BELOW");
}

// One line for each number of bits that shards have, the most first.
void print_thresholds(const ValidationReport& report) {
  std::map<int64_t, Thresholds, std::greater<>> by_bits;
  for (const ShardReport& shard : report.shards) by_bits[shard.thresholds.bits] = shard.thresholds;
  for (const auto& [bits, thresholds] : by_bits) {
    print_out("thresholds of {:>2} bits: cosine >= {}, relative L2 <= {}", bits, thresholds.cosine,
              thresholds.relative_l2);
    if (std::isfinite(thresholds.worst_row)) print_out(", of each row <= {}", thresholds.worst_row);
    print_out("\n");
  }
}

// A table of the shards alone, one of the routers, one of the shards chained, and the verdict.
void print_validation(const ValidationReport& report) {
  print_out("each shard alone on golden inputs\n");
  print_thresholds(report);
  print_out("{:<14} {:<11}  {:<9}  {:<9}  {:<7}  {:<17} {:>8} {:<9}\n", "shard", "cosine", "rel L2",
            "worst row", "SQNR dB", "max error", "NaN/Inf", "headroom");
  for (const ShardReport& shard : report.shards) {
    print_row(shard.shard, shard.alone, shard.passed);
    if (shard.cache) print_row("  new K, V", *shard.cache, shard.passed);
  }
  print_out("routers\n{:<14} {:<12} {:<13} {:<12} {}\n", "shard", "same experts", "weight moved",
            "least margin", "tokens closer than the logit error");
  for (const ShardReport& shard : report.shards)
    if (shard.router)
      print_out("{:<14} {:<12} {:<13.2e} {:<12.2e} {}\n", shard.shard,
                percent(shard.router->same_set, shard.router->tokens), shard.router->moved_weight,
                shard.router->min_margin, shard.router->close_tokens);
  print_out("chained from tokens to logits\n");
  for (const ShardReport& shard : report.shards) print_row(shard.shard, shard.chained, true);
  print_out("logits: top-1 {} of {} tokens, KL {:.2e} nats\n",
            percent(report.logits.same_top1, report.logits.tokens), report.logits.tokens,
            report.logits.mean_kl);
  if (report.greedy_wanted > 0)
    print_out("greedy text: {} of {} tokens equal\n", report.greedy_equal, report.greedy_wanted);
  if (!report.top_k.empty()) print_out("{}\n", report.top_k);
  if (report.drops) print_out("capacity: {}\n", report.drops->describe());
  if (!report.exact && report.top_k.empty())
    print_out("the export's routing is inexact: router agreement is not to be expected\n");
  print_out("{}\n", report.passed ? "PASSED" : "FELL SHORT");
}

struct ValidateFlags {
  std::string folder, golden, thresholds;
  SessionFlags session;
  EngineFlags engine;
  bool json = false, record = false;
};

Status check_paths(const ValidateFlags& flags) {
  MOEC_TRY(require_export(flags.folder));
  return require_golden(flags.golden);
}

Result<SessionOptions> options_of(const ValidateFlags& flags) {
  MOEC_ASSIGN(SessionOptions options, session_options(flags.session));
  MOEC_ASSIGN(options.engine, open_engine(flags.engine));
  if (flags.record && options.engine)
    return fail("engine.option",
                fmt::format("--record records what the reference executor computes, not engine {}",
                            options.engine->traits().name),
                "leave out --record or --engine");
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
  MOEC_ASSIGN(ValidationReport report, validate_model(flags.folder, golden, options, thresholds));
  if (flags.record) MOEC_TRY(record_validation(report, flags.folder));
  return report;
}

int run_validate(const ValidateFlags& flags) {
  const auto report = validate(flags);
  if (!report) return report_failure(report.error(), flags.json);
  if (!flags.json) print_notes(report->notes);
  flags.json ? print_json(validation_json(*report)) : print_validation(*report);
  return report->passed ? kExitFine : kExitFellShort;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "validate", "Run the emitted files and compare the results with golden ones");
  auto flags = std::make_shared<ValidateFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  command
      ->add_option("--golden", flags->golden,
                   "Folder of golden results, made by scripts/make_golden.py")
      ->required();
  command->add_option("--thresholds", flags->thresholds,
                      "A file of thresholds by bits, with the fields of "
                      "frontends/jobs/validate/thresholds.json (default: that file)");
  add_session_flags(*command, flags->session);
  add_engine_flags(*command, flags->engine);
  add_mask_flag(*command, flags->session.expert_mask);
  add_form_flags(*command, flags->session.top_k);
  command->add_flag("--record", flags->record, "Record the results in the manifest of the export");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec validate out/tinymoe --golden tests/golden/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_validate(*flags); });
}

}  // namespace moec
