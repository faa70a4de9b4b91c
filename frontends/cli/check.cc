// moec check: an exported folder before any device sees it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/targets/load_target.h"
#include "frontends/cli/check_folder.h"
#include "frontends/cli/cli.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/progress.h"

namespace moec {
namespace {

struct CheckFlags {
  std::string folder, explain, target = "onnx";
  bool no_digests = false, json = false;
};

std::string describe(const manifest::Placement& placement) {
  std::string text = fmt::format("{} {}", placement.ops, placement.unit);
  for (const manifest::RuleCount& rule : placement.rules)
    text += fmt::format(" ({} x {})", rule.ops, rule.rule);
  return text;
}

void print_report(const CheckReport& report) {
  fmt::print("{:<14} {:>6} {:>12} {:>12}  {}\n", "shard", "ops", "weights", "activations",
             "predicted placement");
  int64_t weights = 0;
  for (const CheckedShard& shard : report.shards) {
    std::string placement;
    for (const manifest::Placement& unit : shard.placement)
      placement += (placement.empty() ? "" : ", ") + describe(unit);
    fmt::print("{:<14} {:>6} {:>12} {:>12}  {}\n", shard.name, shard.ops,
               human_bytes(static_cast<double>(shard.weight_bytes)),
               human_bytes(static_cast<double>(shard.peak_activation_bytes)), placement);
    weights += shard.weight_bytes;
  }
  const manifest::Build& build = report.manifest.build;
  fmt::print("{} shards, {} of weights, routing {} ({})\n", report.shards.size(),
             human_bytes(static_cast<double>(weights)), build.routing,
             build.exact ? "exact" : "INEXACT");
  if (!report.findings.empty()) fmt::print("{}\n", render(report.findings));
  fmt::print("{}\n", has_error(report.findings) ? "FELL SHORT" : "PASSED");
}

void print_json(const CheckReport& report) {
  auto shards = nlohmann::ordered_json::array();
  for (const CheckedShard& shard : report.shards) {
    auto placement = nlohmann::ordered_json::array();
    for (const manifest::Placement& unit : shard.placement) {
      auto rules = nlohmann::ordered_json::object();
      for (const manifest::RuleCount& rule : unit.rules) rules[rule.rule] = rule.ops;
      placement.push_back({{"unit", unit.unit}, {"ops", unit.ops}, {"rules", rules}});
    }
    shards.push_back({{"shard", shard.name},
                      {"ops", shard.ops},
                      {"weight_bytes", shard.weight_bytes},
                      {"peak_activation_bytes", shard.peak_activation_bytes},
                      {"predicted_placement", placement}});
  }
  const nlohmann::ordered_json json = {{"ok", !has_error(report.findings)},
                                       {"exact_routing", report.manifest.build.exact},
                                       {"shards", shards},
                                       {"diagnostics", to_json(report.findings)}};
  fmt::print("{}\n", json.dump(2));
}

int explain(const Target& target, const std::string& id) {
  for (const TargetRule& rule : target.rules)
    if (rule.id == id) {
      fmt::print("{} ({}): {}\n", rule.id, severity_name(rule.severity), rule.reason);
      if (rule.limit > 0) fmt::print("  limit: {}\n", rule.limit);
      fmt::print("  confidence: {}\n  source: {}\n", rule.confidence, rule.source);
      return kExitFine;
    }
  std::string known;
  for (const TargetRule& rule : target.rules) known += (known.empty() ? "" : ", ") + rule.id;
  Diagnostics unknown = {{Severity::error,
                          "check.unknown_rule",
                          fmt::format("target {} has no rule '{}'", target.name, id),
                          "its rules are " + known,
                          {}}};
  return report_failure(unknown, false);
}

int run_check(const CheckFlags& flags) {
  auto target = builtin_target(flags.target);
  if (!target) return report_failure(target.error(), flags.json);
  if (!flags.explain.empty()) return explain(*target, flags.explain);
  auto report = check_folder(flags.folder, *target, {.digests = !flags.no_digests});
  if (!report) return report_failure(report.error(), flags.json);
  flags.json ? print_json(*report) : print_report(*report);
  return has_error(report->findings) ? kExitFellShort : kExitFine;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("check", "Check an exported folder");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("OUT", flags->folder, "An exported folder");
  command->add_option("--explain", flags->explain,
                      "Print a target rule: number, source, confidence");
  command->add_option("--target", flags->target, "Target whose rules apply")->capture_default_str();
  command->add_flag("--no-digests", flags->no_digests, "Do not read every byte of every file");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec check out/tinymoe");
  command->callback([flags, &exit_code] {
    if (flags->folder.empty() && flags->explain.empty()) throw CLI::RequiredError("OUT");
    exit_code = run_check(*flags);
  });
}

}  // namespace moec
