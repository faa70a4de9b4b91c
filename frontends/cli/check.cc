// moec check: an exported folder before any device sees it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "backends/files/output_file.h"
#include "backends/targets/find_target.h"
#include "backends/targets/load_target.h"
#include "frontends/check/check_folder.h"
#include "frontends/check/expected_placement.h"
#include "frontends/check/measured.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_check.h"
#include "frontends/cli/print/sarif.h"

namespace moec {
namespace {

struct CheckFlags {
  std::string folder, explain, sarif, measured;
  CheckOptions options;
  bool json = false, ops = false, expected = false;
};

// A rule's id, or the part before the dot that the rules of several chip families share.
bool is_called(const TargetRule& rule, const std::string& id) {
  return rule.id == id || rule.id.starts_with(id + ".");
}

void print_rules(const std::vector<ExplainedRule>& rules, bool json) {
  if (json) return print_rules_json(rules);
  for (const ExplainedRule& explained : rules) fmt::print("{}", describe_rule(explained.rule));
}

// Rules of one target, or of all where none is named.
int explain(const CheckFlags& flags) {
  const std::vector<std::string_view> builtin = builtin_target_names();
  std::vector<std::string> names(builtin.begin(), builtin.end());
  if (!flags.options.target.empty()) names = {flags.options.target};
  std::vector<ExplainedRule> found;
  std::string known;
  for (const std::string& name : names) {
    auto target = find_target(name);
    if (!target) return report_failure(target.error(), flags.json);
    for (const TargetRule& rule : target->rules) {
      if (is_called(rule, flags.explain)) found.push_back({target->name, rule});
      known += (known.empty() ? "" : ", ") + rule.id;
    }
  }
  if (!found.empty()) {
    print_rules(found, flags.json);
    return kExitFine;
  }
  Diagnostics unknown = {
      {Severity::error,
       "check.unknown_rule",
       fmt::format("target {} has no rule '{}'", fmt::join(names, " or "), flags.explain),
       "the rules are " + known,
       {}}};
  return report_failure(unknown, flags.json);
}

// Files besides the report: SARIF, and what a Mac is expected to say.
Status write_files(const CheckFlags& flags, const CheckReport& report) {
  if (!flags.sarif.empty()) MOEC_TRY(write_file(flags.sarif, to_sarif(report)));
  if (!flags.expected) return {};
  return write_file(fmt::format("{}/{}", flags.folder, kExpectedPlacement),
                    expected_placement(report));
}

int report_measured(const CheckFlags& flags, const CheckReport& report) {
  auto measured = read_measured(flags.measured);
  if (!measured) return report_failure(measured.error(), flags.json);
  auto comparison = compare_placement(report, *measured);
  if (!comparison) return report_failure(comparison.error(), flags.json);
  flags.json ? print_comparison_json(*comparison, *measured)
             : print_comparison(*comparison, *measured);
  return comparison->is_worse() ? kExitFellShort : kExitFine;
}

int run_check(const CheckFlags& flags) {
  if (!flags.explain.empty()) return explain(flags);
  auto report = check_folder(flags.folder, flags.options);
  if (!report) return report_failure(report.error(), flags.json);
  if (Status status = write_files(flags, **report); !status)
    return report_failure(status.error(), flags.json);
  if (!flags.measured.empty()) return report_measured(flags, **report);
  flags.json ? print_check_json(**report, flags.ops) : print_check(**report, flags.ops);
  return has_error((*report)->findings) ? kExitFellShort : kExitFine;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "check", "Check an exported folder: files, and where each op is predicted to run");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("OUT", flags->folder, "An exported folder");
  command->add_option("--explain", flags->explain,
                      "Print a target rule: number, chips, confidence, source");
  command->add_option("--target", flags->options.target,
                      "Target whose rules apply (default: the export's own)");
  command->add_option("--chip", flags->options.chip,
                      "Only the rules of this chip, e.g. m1 (default: those of all)");
  command
      ->add_option("--min-coverage", flags->options.min_coverage,
                   "Percent of a shard's compute ops that must be predicted on the target's unit "
                   "(default: the target's)")
      ->check(CLI::Range(0, 100));
  command->add_option("--sarif", flags->sarif, "Also write what rules are broken as SARIF 2.1.0");
  command->add_option("--measured", flags->measured,
                      "Compare the prediction with what scripts/confirm_on_mac.py measured");
  command->add_flag("--expected", flags->expected,
                    "Write OUT/expected_placement.json, for scripts/confirm_on_mac.py");
  command->add_flag("--ops", flags->ops,
                    "List ops predicted to run elsewhere; with --json every op");
  command->add_flag("--digests,!--no-digests", flags->options.digests,
                    "Read every byte of every file and compare its digest (default), or do not");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec check out/tinymoe --chip m1");
  command->callback([flags, &exit_code] {
    if (flags->folder.empty() && flags->explain.empty()) throw CLI::RequiredError("OUT");
    exit_code = run_check(*flags);
  });
}

}  // namespace moec
