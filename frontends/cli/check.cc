// moec check: checks an exported folder without a device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backends/files/output_file.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/top_k.h"
#include "backends/targets/explain_rule.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/node_data_flag.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/print_measured.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/cli/print/shard_rows.h"
#include "frontends/jobs/check/check_folder.h"
#include "frontends/jobs/check/check_json.h"
#include "frontends/jobs/check/check_split.h"
#include "frontends/jobs/check/measured.h"
#include "ir/base/byte_text.h"
#include "ir/base/output_apart.h"

namespace moec {

namespace {

std::string bytes_text(int64_t bytes) { return decimal_bytes(bytes); }

// `ops` is the number of ops of the shard, which the table has in another column.
std::string describe(const manifest::Placement& placement, int64_t ops) {
  std::string text =
      placement.ops == ops ? placement.unit : fmt::format("{} {}", placement.ops, placement.unit);
  for (const manifest::RuleCount& rule : placement.rules)
    text += fmt::format(" ({} x {})", rule.ops, rule.rule);
  return text;
}

void print_shards(const CheckReport& report, bool all) {
  print_out("{:<14} {:>5} {:>9} {:>11} {:>6} {:>6} {:>7} {:>7}  {}\n", "shard", "ops", "weights",
            "activations", "% ops", "% MACs", "% bytes", "changes", "placement");
  std::vector<ShardRow> rows;
  for (const CheckedShard& shard : report.shards) {
    std::string placement;
    for (const manifest::Placement& unit : shard.placement)
      placement += (placement.empty() ? "" : ", ") + describe(unit, shard.ops);
    for (const TargetRule* rule : shard.doubts) placement += ", undecided by " + rule->id;
    const Coverage& coverage = shard.coverage;
    rows.push_back(
        {shard.name,
         fmt::format("{:>5} {:>9} {:>11} {:>6.1f} {:>6.1f} {:>7.1f} {:>7}  {}", shard.ops,
                     bytes_text(shard.weight_bytes), bytes_text(shard.peak_activation_bytes),
                     coverage.ops.percent(), coverage.macs.percent(),
                     coverage.weight_bytes.percent(), transitions(shard), placement),
         {}});
  }
  print_out("{}", shard_lines(rows, all, ""));
}

void print_ops_elsewhere(const CheckReport& report) {
  for (const CheckedShard& shard : report.shards)
    for (const CheckedWidth& width : shard.widths)
      for (const PlacedOp& op : width.placement.ops)
        // Ops on the target's own unit are the expected case and would fill the screen.
        if (op.unit != report.target.unit)
          print_out("  {} {} ({}): predicted on {} by rule {}\n", width.file, op.name, op.op,
                    op.unit, op.rule);
}

void print_coverage(const CheckReport& report) {
  const auto& [ops, macs, weight_bytes] = report.coverage;
  print_out(
      "predicted on {}: {:.1f} % of compute ops, {:.1f} % of MACs, {:.1f} % of weight bytes\n",
      report.target.unit, ops.percent(), macs.percent(), weight_bytes.percent());
  print_out("undecided: {:.1f} % of compute ops, {:.1f} % of MACs, {:.1f} % of weight bytes\n",
            ops.percent_undecided(), macs.percent_undecided(), weight_bytes.percent_undecided());
}

// Prints one line per broken rule, with the number of files and ops that break it.
void print_rules(const CheckReport& report) {
  for (const BrokenRule& broken : broken_rules(report))
    print_out("{} [{}] {} files, {} ops: {}\n", severity_name(broken.rule->severity),
              broken.rule->id, broken.files, broken.ops, broken.rule->reason);
}

// One rule of a target may reject hundreds of ops for the same reason, so only its first finding is
// shown.
void print_findings(const Diagnostics& findings, bool in_full) {
  const auto most = [](std::string_view code) {
    return code.starts_with("target.") || code == "check.coverage" || code == "check.undecided"
               ? size_t{1}
               : kShownErrors;
  };
  const Diagnostics shown = in_full ? findings : first_of_each_code(findings, most);
  if (!shown.empty()) print_out("{}\n", render(shown));
  if (shown.size() < findings.size()) print_out("--ops lists all {} findings\n", findings.size());
}

std::string_view verdict(const Diagnostics& findings) {
  return has_error(findings) ? "FELL SHORT" : "PASSED";
}

// Prints the report of files without graphs, which have no placement.
void print_held(const HeldWeights& held, const Diagnostics& findings, bool in_full) {
  print_out("{} files, {} of weights, {} tensors", held.files, bytes_text(held.bytes),
            held.tensors);
  if (held.moe_layers > 0)
    print_out(", {} experts in each of {} layers", held.experts, held.moe_layers);
  print_out("\n");
  print_findings(findings, in_full);
  print_out("{}\n", verdict(findings));
}

// Parts of the report that are listed in full. `shards`: every shard. `ops`: every finding, and
// every op predicted to run on another unit than the target's, with the rule that decides it.
struct Listed {
  bool shards = false, ops = false;
};

// Prints a table of the shards, the broken rules with their numbers of files and ops, and the first
// finding of each rule.
void print_check(const CheckReport& report, const Listed& listed) {
  const bool with_ops = listed.ops;
  // Files without graphs have no shards, so the tables below would be empty.
  if (report.held) return print_held(*report.held, report.findings, with_ops);
  print_shards(report, listed.shards);
  if (with_ops) print_ops_elsewhere(report);
  const manifest::Build& build = report.manifest.build;
  print_out("{} shards, {} of weights, {}\n", report.shards.size(),
            bytes_text(checked_weight_bytes(report)), routing_text(report.manifest));
  if (!build.expert_mask.empty()) print_out("experts kept by the mask: {}\n", build.expert_mask);
  if (report.manifest.top_k) print_out("top-k variants: {}\n", describe_forms(report.manifest));
  if (report.manifest.capacity)
    print_out("expert capacity factor: {}\n", report.manifest.capacity->factor);
  if (report.manifest.node) print_out("{}\n", node_text(*report.manifest.node));
  print_coverage(report);
  print_rules(report);
  print_findings(report.findings, with_ops);
  print_out("{}\n", verdict(report.findings));
}

// Prints the report of each node, then the findings that concern the whole split.
void print_check(const SplitCheck& split, const Listed& listed) {
  for (const CheckedNode& node : split.nodes) {
    print_out("{}\n", node.folder);
    print_check(*node.report, listed);
  }
  print_findings(split.findings, listed.ops);
  print_out("{} nodes: {}\n", split.nodes.size(), split.passed() ? "PASSED" : "FELL SHORT");
}

struct CheckFlags {
  std::string folder, explain, measured;
  UserOutput sarif{.flag = "--sarif"}, node_data;
  CheckOptions options;
  Listed listed;
  bool json = false, expected = false;
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

// Writes the files that the flags request in addition to the report.
Status write_files(const CheckFlags& flags, const CheckReport& report) {
  // check_outputs() has already refused existing files without --force.
  if (!flags.sarif.path.empty()) MOEC_TRY(write_user_file(flags.sarif.path, to_sarif(report)));
  if (!flags.node_data.path.empty())
    for (const NodeOverlay& overlay : check_overlays(report))
      MOEC_TRY(write_node_data(flags.node_data.path, overlay));
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
  // An op on a better unit than predicted is a wrong prediction, but no shortfall.
  return comparison->is_worse() ? kExitFellShort : kExitFine;
}

int run_check_of_nodes(const CheckFlags& flags) {
  if (!flags.sarif.path.empty() || !flags.node_data.path.empty() || !flags.measured.empty() ||
      flags.expected)
    return report_failure({{Severity::error,
                            "check.split",
                            "--sarif, --node-data, --measured and --expected require a single "
                            "export, but this folder has several",
                            "pass the folder of one node",
                            {.file = flags.folder}}},
                          flags.json);
  Progress progress("check", false);
  CheckOptions options = flags.options;
  options.progress = progress.callback();
  const auto split = check_split(flags.folder, options);
  progress.finish();
  if (!split) return report_failure(split.error(), flags.json);
  flags.json ? print_json(check_json(*split, flags.listed.ops)) : print_check(*split, flags.listed);
  return split->passed() ? kExitFine : kExitFellShort;
}

// Checks before the run that the files may be written.
Status check_outputs(const CheckFlags& flags) {
  MOEC_TRY(check_user_output(flags.sarif, flags.folder));
  return check_node_data(flags.node_data, flags.folder, {kPlacementOverlay, kWeightsOverlay});
}

int run_check(const CheckFlags& flags) {
  if (!flags.explain.empty()) return explain(flags);
  // The folder of a split has no manifest, so check_folder() below would refuse it.
  if (is_split_folder(flags.folder)) return run_check_of_nodes(flags);
  if (const Status source = require_export(flags.folder); !source)
    return report_failure(source.error(), flags.json);
  if (const Status free = check_outputs(flags); !free)
    return report_failure(free.error(), flags.json);
  Progress progress("check", false);
  CheckOptions options = flags.options;
  options.progress = progress.callback();
  auto report = check_folder(flags.folder, options);
  progress.finish();
  if (!report) return report_failure(report.error(), flags.json);
  if (Status status = write_files(flags, **report); !status)
    return report_failure(status.error(), flags.json);
  if (!flags.measured.empty()) return report_measured(flags, **report);
  flags.json ? print_json(check_json(**report, flags.listed.ops))
             : print_check(**report, flags.listed);
  return has_error((*report)->findings) ? kExitFellShort : kExitFine;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("check",
                                         "Check an exported folder: its files, its weights and the "
                                         "unit that each op is predicted to run on");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("OUT", flags->folder,
                      "An exported folder, or a folder that moec split wrote");
  command->add_option("--explain", flags->explain,
                      "Instead of checking, explain the target rule with this id (limit, chips, "
                      "confidence, source), or the targets' support for a weight format, e.g. "
                      "int8:32; weights: for all formats");
  command->add_option("--target", flags->options.target,
                      "Target whose rules apply: a built-in name or the path of a target file "
                      "NAME.json (default: the target of the export)");
  command->add_option(
      "--chip", flags->options.chip,
      "Apply only the rules of this chip, e.g. m1 (default: the rules of all chips)");
  command->add_flag("--allow-over-budget", flags->options.allow_over_budget,
                    "Report shards above the budget of the export as warnings instead of errors");
  // Has no effect: undecided shards are no longer errors, but older scripts still pass the flag.
  command->add_flag("--allow-disputed")->group("");
  command
      ->add_option("--min-coverage", flags->options.min_coverage,
                   "Minimum percentage of each shard's compute ops predicted to run on the "
                   "target's unit, 0 to 100 (default: the target's)")
      ->check(CLI::Range(0, 100));
  command->add_option("--sarif", flags->sarif.path,
                      "Also write the broken rules to this file, as SARIF 2.1.0");
  add_node_data_flag(*command, flags->node_data,
                     "the predicted unit and the bytes of weights of each op");
  command->add_option("--measured", flags->measured,
                      "Compare the prediction with this measured.json of moec confirm or "
                      "scripts/confirm_on_mac.py");
  command->add_flag("--expected", flags->expected,
                    "Write OUT/expected_placement.json, which scripts/confirm_on_mac.py reads");
  command->add_flag("--all", flags->listed.shards, "List every shard, even if there are many");
  command->add_flag(
      "--ops", flags->listed.ops,
      "List every finding, and the ops predicted to run on another unit; with --json, all ops");
  command->add_flag("--digests,!--no-digests", flags->options.digests,
                    "Read every byte of every file and compare its digest (default: --digests)");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec check out/tinymoe --chip m1");
  command->callback([flags, &exit_code] {
    flags->sarif.force = flags->node_data.force;
    // CLI11 cannot require OUT, because --explain runs without it.
    if (flags->folder.empty() && flags->explain.empty()) throw CLI::RequiredError("OUT");
    exit_code = run_check(*flags);
  });
}

}  // namespace moec
