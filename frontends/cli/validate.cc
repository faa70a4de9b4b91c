// moec validate: the emitted files against golden results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/manifest/manifest_file.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/print/findings.h"
#include "frontends/validate/validate_model.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

struct ValidateFlags {
  std::string folder, golden, precision = "f32";
  bool json = false, record = false;
};

std::string percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_row(const std::string& name, const Comparison& c, bool passed) {
  fmt::print("{:<14} {:.9f}  {:9.2e}  {:7.1f}  {:9.2e} @{:<6} {:>8} {:9.2e}  {}\n", name, c.cosine,
             c.relative_l2, c.sqnr_db, c.max_abs, c.max_index, c.nonfinite, c.headroom,
             passed ? "ok" : "BELOW");
}

void print_report(const ValidationReport& report) {
  fmt::print("each shard alone on golden inputs (thresholds: cosine >= {}, relative L2 <= {})\n",
             report.thresholds.cosine, report.thresholds.relative_l2);
  fmt::print("{:<14} {:<11}  {:<9}  {:<7}  {:<17} {:>8} {:<9}\n", "shard", "cosine", "rel L2",
             "SQNR dB", "max error", "NaN/Inf", "headroom");
  for (const ShardReport& shard : report.shards) {
    print_row(shard.shard, shard.alone, shard.passed);
    if (shard.cache) print_row("  new K, V", *shard.cache, shard.passed);
  }
  fmt::print("routers\n{:<14} {:<12} {:<13} {:<12} {}\n", "shard", "same experts", "weight moved",
             "least margin", "tokens closer than the logit error");
  for (const ShardReport& shard : report.shards)
    if (shard.router)
      fmt::print("{:<14} {:<12} {:<13.2e} {:<12.2e} {}\n", shard.shard,
                 percent(shard.router->same_set, shard.router->tokens), shard.router->moved_weight,
                 shard.router->min_margin, shard.router->close_tokens);
  fmt::print("chained from tokens to logits\n");
  for (const ShardReport& shard : report.shards) print_row(shard.shard, shard.chained, true);
  fmt::print("logits: top-1 {} of {} tokens, KL {:.2e} nats\n",
             percent(report.logits.same_top1, report.logits.tokens), report.logits.tokens,
             report.logits.mean_kl);
  if (report.greedy_wanted > 0)
    fmt::print("greedy text: {} of {} tokens equal\n", report.greedy_equal, report.greedy_wanted);
  if (!report.exact)
    fmt::print("the export's routing form is inexact: router agreement is not to be expected\n");
  fmt::print("{}\n", report.passed ? "PASSED" : "FELL SHORT");
}

ordered_json to_json(const Comparison& c) {
  return {{"cosine", c.cosine},     {"relative_l2", c.relative_l2}, {"sqnr_db", c.sqnr_db},
          {"max_abs", c.max_abs},   {"max_index", c.max_index},     {"nonfinite", c.nonfinite},
          {"headroom", c.headroom}, {"elements", c.elements}};
}

ordered_json to_json(const ShardReport& shard) {
  ordered_json json = {{"shard", shard.shard},
                       {"passed", shard.passed},
                       {"alone", to_json(shard.alone)},
                       {"chained", to_json(shard.chained)}};
  if (shard.cache) json["cache"] = to_json(*shard.cache);
  if (shard.router)
    json["router"] = {{"tokens", shard.router->tokens},
                      {"same_experts", shard.router->same_set},
                      {"weight_moved", shard.router->moved_weight},
                      {"least_margin", shard.router->min_margin},
                      {"close_tokens", shard.router->close_tokens}};
  return json;
}

void print_json(const ValidationReport& report) {
  auto shards = ordered_json::array();
  for (const ShardReport& shard : report.shards) shards.push_back(to_json(shard));
  const ordered_json json = {
      {"ok", report.passed},
      {"precision", report.precision == Precision::f16 ? "f16" : "f32"},
      {"exact_routing", report.exact},
      {"thresholds",
       {{"cosine", report.thresholds.cosine}, {"relative_l2", report.thresholds.relative_l2}}},
      {"shards", shards},
      {"logits",
       {{"tokens", report.logits.tokens},
        {"same_top1", report.logits.same_top1},
        {"mean_kl", report.logits.mean_kl}}},
      {"greedy", {{"wanted", report.greedy_wanted}, {"equal", report.greedy_equal}}}};
  fmt::print("{}\n", json_text(json));
}

// Writes the results into the manifest, in place of earlier ones of the same precision.
Status record(const std::string& folder, const ValidationReport& report) {
  MOEC_ASSIGN(Manifest manifest, read_manifest(folder));
  const DType precision = report.precision == Precision::f16 ? DType::f16 : DType::f32;
  std::erase_if(manifest.golden,
                [&](const manifest::Golden& golden) { return golden.precision == precision; });
  for (const ShardReport& shard : report.shards)
    manifest.golden.push_back(
        {shard.shard, precision, shard.alone.cosine, shard.alone.relative_l2});
  return write_manifest(manifest, folder);
}

int run_validate(const ValidateFlags& flags) {
  auto golden = Golden::open(flags.golden);
  if (!golden) return report_failure(golden.error(), flags.json);
  auto report = validate_model(flags.folder, *golden,
                               flags.precision == "f16" ? Precision::f16 : Precision::f32);
  if (!report) return report_failure(report.error(), flags.json);
  if (flags.record)
    if (Status status = record(flags.folder, *report); !status)
      return report_failure(status.error(), flags.json);
  flags.json ? print_json(*report) : print_report(*report);
  return report->passed ? kExitFine : kExitFellShort;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("validate", "Run the emitted files against golden results");
  auto flags = std::make_shared<ValidateFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  command->add_option("--golden", flags->golden, "A folder made by scripts/make_golden.py")
      ->required();
  command->add_option("--precision", flags->precision, "f32, or f16 with rounding after every op")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  command->add_flag("--record", flags->record, "Write the results into the manifest");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec validate out/tinymoe --golden tests/golden/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_validate(*flags); });
}

}  // namespace moec
