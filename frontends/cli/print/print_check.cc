#include "frontends/cli/print/print_check.h"

#include <fmt/format.h>

#include <string_view>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/top_k.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/check/check_totals.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

std::string bytes_text(int64_t bytes) { return binary_bytes(static_cast<double>(bytes)); }

std::string describe(const manifest::Placement& placement) {
  std::string text = fmt::format("{} {}", placement.ops, placement.unit);
  for (const manifest::RuleCount& rule : placement.rules)
    text += fmt::format(" ({} x {})", rule.ops, rule.rule);
  return text;
}

void print_shards(const CheckReport& report) {
  print_out("{:<14} {:>6} {:>12} {:>12} {:>8} {:>8} {:>8} {:>8}  {}\n", "shard", "ops", "weights",
            "activations", "% ops", "% MACs", "% bytes", "changes", "predicted placement");
  for (const CheckedShard& shard : report.shards) {
    std::string placement;
    for (const manifest::Placement& unit : shard.placement)
      placement += (placement.empty() ? "" : ", ") + describe(unit);
    for (const TargetRule* rule : shard.disputes) placement += ", disputed by " + rule->id;
    const Coverage& coverage = shard.coverage;
    print_out("{:<14} {:>6} {:>12} {:>12} {:>8.1f} {:>8.1f} {:>8.1f} {:>8}  {}\n", shard.name,
              shard.ops, bytes_text(shard.weight_bytes), bytes_text(shard.peak_activation_bytes),
              coverage.ops.percent(), coverage.macs.percent(), coverage.weight_bytes.percent(),
              transitions(shard), placement);
  }
}

void print_ops_elsewhere(const CheckReport& report) {
  for (const CheckedShard& shard : report.shards)
    for (const CheckedWidth& width : shard.widths)
      for (const PlacedOp& op : width.placement.ops)
        if (op.unit != report.target.unit)
          print_out("  {} {} ({}): predicted on {} by rule {}\n", width.file, op.name, op.op,
                    op.unit, op.rule);
}

void print_coverage(const CheckReport& report) {
  const auto& [ops, macs, weight_bytes] = report.coverage;
  print_out(
      "predicted on {}: {:.1f} % of compute ops, {:.1f} % of MACs, {:.1f} % of weight bytes\n",
      report.target.unit, ops.percent(), macs.percent(), weight_bytes.percent());
  print_out("disputed: {:.1f} % of compute ops, {:.1f} % of MACs, {:.1f} % of weight bytes\n",
            ops.percent_disputed(), macs.percent_disputed(), weight_bytes.percent_disputed());
}

// One line for each broken rule, with the number of files and ops that break it.
void print_rules(const CheckReport& report) {
  for (const BrokenRule& broken : broken_rules(report))
    print_out("{} [{}] {} files, {} ops: {}\n", severity_name(broken.rule->severity),
              broken.rule->id, broken.files, broken.ops, broken.rule->reason);
}

// A rule of the target concerns ops by the hundreds, for one reason, so its first op stands for
// all.
void print_findings(const Diagnostics& findings, bool in_full) {
  const auto most = [](std::string_view code) {
    return code.starts_with("target.") || code == "check.coverage" || code == "check.disputed"
               ? size_t{1}
               : kShownErrors;
  };
  const Diagnostics shown = in_full ? findings : first_of_each_code(findings, most);
  if (!shown.empty()) print_out("{}\n", render(shown));
  if (shown.size() < findings.size()) print_out("--ops lists all {} findings\n", findings.size());
}

}  // namespace

void print_check(const CheckReport& report, bool with_ops) {
  print_shards(report);
  if (with_ops) print_ops_elsewhere(report);
  const manifest::Build& build = report.manifest.build;
  print_out("{} shards, {} of weights, {}\n", report.shards.size(),
            bytes_text(checked_weight_bytes(report)), routing_text(report.manifest));
  if (!build.expert_mask.empty()) print_out("experts left by a mask: {}\n", build.expert_mask);
  if (report.manifest.top_k) print_out("forms of top-k: {}\n", describe_forms(report.manifest));
  if (report.manifest.capacity)
    print_out("capacity of experts: {}\n", report.manifest.capacity->factor);
  if (report.manifest.node) print_out("{}\n", node_text(*report.manifest.node));
  print_coverage(report);
  print_rules(report);
  print_findings(report.findings, with_ops);
  print_out("{}\n", has_error(report.findings) ? "FELL SHORT" : "PASSED");
}

void print_check(const SplitCheck& split, bool with_ops) {
  for (const CheckedNode& node : split.nodes) {
    print_out("{}\n", node.folder);
    print_check(*node.report, with_ops);
  }
  print_findings(split.findings, with_ops);
  print_out("{} nodes: {}\n", split.nodes.size(), split.passed() ? "PASSED" : "FELL SHORT");
}

}  // namespace moec
