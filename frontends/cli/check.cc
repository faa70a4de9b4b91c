// moec check: checks an exported folder without a device.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/output_file.h"
#include "backends/targets/explain_rule.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_check.h"
#include "frontends/cli/print/print_measured.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/check/check_folder.h"
#include "frontends/jobs/check/check_json.h"
#include "frontends/jobs/check/expected_placement.h"
#include "frontends/jobs/check/measured.h"
#include "frontends/jobs/check/measured_json.h"
#include "frontends/jobs/check/sarif.h"

namespace moec {
namespace {

struct CheckFlags {
  std::string folder, explain, sarif, measured;
  CheckOptions options;
  bool json = false, ops = false, expected = false;
};

void print_rules(const std::vector<ExplainedRule>& rules, bool json) {
  if (json) return print_json(rules_json(rules));
  for (const ExplainedRule& explained : rules) print_out("{}", describe_rule(explained.rule));
}

void print_forms(const std::vector<ExplainedForms>& forms, bool json) {
  if (json) return print_json(weight_forms_json(forms));
  for (const ExplainedForms& entry : forms) print_out("{}", describe_weight_forms(entry));
}

int explain_forms(const CheckFlags& flags) {
  const auto found = explain_weight_forms(flags.explain, flags.options.target);
  if (!found) return report_failure(found.error(), flags.json);
  print_forms(*found, flags.json);
  return kExitFine;
}

int explain(const CheckFlags& flags) {
  if (names_weight_forms(flags.explain)) return explain_forms(flags);
  const auto found = explain_rule(flags.explain, flags.options.target);
  if (!found) return report_failure(found.error(), flags.json);
  print_rules(*found, flags.json);
  return kExitFine;
}

// The files that are written besides the report.
Status write_files(const CheckFlags& flags, const CheckReport& report) {
  if (!flags.sarif.empty()) MOEC_TRY(write_user_file(flags.sarif, to_sarif(report)));
  if (!flags.expected) return {};
  return write_file({flags.folder, std::string(kExpectedPlacement)}, expected_placement(report));
}

int report_measured(const CheckFlags& flags, const CheckReport& report) {
  auto measured = read_measured(flags.measured);
  if (!measured) return report_failure(measured.error(), flags.json);
  auto comparison = compare_placement(report, *measured);
  if (!comparison) return report_failure(comparison.error(), flags.json);
  flags.json ? print_json(measured_json(*comparison, *measured))
             : print_comparison(*comparison, *measured);
  return comparison->is_worse() ? kExitFellShort : kExitFine;
}

int run_check_of_nodes(const CheckFlags& flags) {
  if (!flags.sarif.empty() || !flags.measured.empty() || flags.expected)
    return report_failure(
        {{Severity::error,
          "check.split",
          "--sarif, --measured and --expected are for one export, and this folder has several",
          "give the folder of a node",
          {.file = flags.folder}}},
        flags.json);
  const auto split = check_split(flags.folder, flags.options);
  if (!split) return report_failure(split.error(), flags.json);
  flags.json ? print_json(check_json(*split, flags.ops)) : print_check(*split, flags.ops);
  return split->passed() ? kExitFine : kExitFellShort;
}

int run_check(const CheckFlags& flags) {
  if (!flags.explain.empty()) return explain(flags);
  if (is_split_folder(flags.folder)) return run_check_of_nodes(flags);
  if (const Status source = require_export(flags.folder); !source)
    return report_failure(source.error(), flags.json);
  auto report = check_folder(flags.folder, flags.options);
  if (!report) return report_failure(report.error(), flags.json);
  if (Status status = write_files(flags, **report); !status)
    return report_failure(status.error(), flags.json);
  if (!flags.measured.empty()) return report_measured(flags, **report);
  flags.json ? print_json(check_json(**report, flags.ops)) : print_check(**report, flags.ops);
  return has_error((*report)->findings) ? kExitFellShort : kExitFine;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "check",
      "Check an exported folder: its files, its weights, and on which unit each op is predicted to "
      "run");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("OUT", flags->folder,
                      "An exported folder, or one of moec split with all nodes");
  command->add_option(
      "--explain", flags->explain,
      "Print the target rule of this id (limit, chips, confidence, source), or what targets say of "
      "a form of weights, int8:32, or of all of them, weights, instead of checking");
  command->add_option("--target", flags->options.target,
                      "Target whose rules apply: a built-in name or the path of a target file "
                      "NAME.json (default: the one that the folder was exported for)");
  command->add_option(
      "--chip", flags->options.chip,
      "Apply only the rules of this chip, e.g. m1 (default: the rules of all chips)");
  command->add_flag("--allow-over-budget", flags->options.allow_over_budget,
                    "A shard above the budget that it was exported with is a warning instead of "
                    "an error");
  command->add_flag("--allow-disputed", flags->options.allow_disputed,
                    "A shard whose placement a warning about the whole shard disputes is a warning "
                    "instead of an error");
  command
      ->add_option("--min-coverage", flags->options.min_coverage,
                   "Percentage of each shard's compute ops that must be predicted to run on the "
                   "target's unit, 0 to 100 (default: the target's)")
      ->check(CLI::Range(0, 100));
  command->add_option("--sarif", flags->sarif,
                      "Also write the broken rules to this file, as SARIF 2.1.0");
  command->add_option("--measured", flags->measured,
                      "Compare the prediction with measured.json of moec confirm or of "
                      "scripts/confirm_on_mac.py");
  command->add_flag("--expected", flags->expected,
                    "Write OUT/expected_placement.json, which scripts/confirm_on_mac.py reads");
  command->add_flag("--ops", flags->ops,
                    "List every finding, and the ops that are predicted to run on another unit; "
                    "with --json, all ops");
  command->add_flag("--digests,!--no-digests", flags->options.digests,
                    "Read every byte of every file and compare its digest (default: --digests)");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec check out/tinymoe --chip m1");
  command->callback([flags, &exit_code] {
    if (flags->folder.empty() && flags->explain.empty()) throw CLI::RequiredError("OUT");
    exit_code = run_check(*flags);
  });
}

}  // namespace moec
