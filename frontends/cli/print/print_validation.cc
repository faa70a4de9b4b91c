#include "frontends/cli/print/print_validation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

std::string percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_row(const std::string& name, const Comparison& c, bool passed) {
  print_out("{:<14} {:.9f}  {:9.2e}  {:7.1f}  {:9.2e} @{:<6} {:>8} {:9.2e}  {}\n", name, c.cosine,
            c.relative_l2, c.sqnr_db, c.max_abs, c.max_index, c.nonfinite, c.headroom,
            passed ? "ok" : "BELOW");
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

// What kept the validation from passing, where anything did.
Diagnostics shortfalls(const ValidationReport& report) {
  Diagnostics found;
  const auto add = [&](std::string code, std::string cause, const std::string& shard) {
    found.push_back({Severity::error,
                     std::move(code),
                     std::move(cause),
                     "moec validate without --json prints the figures of each shard",
                     {.shard = shard}});
  };
  for (const ShardReport& shard : report.shards)
    if (!shard.passed)
      add("validate.shard",
          fmt::format("alone on golden inputs: cosine {:.9f}, relative L2 {:.2e}, {} NaN or "
                      "infinite; at least {} and at most {} are required",
                      shard.alone.cosine, shard.alone.relative_l2, shard.alone.nonfinite,
                      report.thresholds.cosine, report.thresholds.relative_l2),
          shard.shard);
  if (!report.passed && found.empty())
    add("validate.text",
        fmt::format("the likeliest next token agrees for {} of {} tokens, the greedy text for {} "
                    "of {}",
                    report.logits.same_top1, report.logits.tokens, report.greedy_equal,
                    report.greedy_wanted),
        {});
  return found;
}

}  // namespace

void print_validation(const ValidationReport& report) {
  print_out("each shard alone on golden inputs (thresholds: cosine >= {}, relative L2 <= {})\n",
            report.thresholds.cosine, report.thresholds.relative_l2);
  print_out("{:<14} {:<11}  {:<9}  {:<7}  {:<17} {:>8} {:<9}\n", "shard", "cosine", "rel L2",
            "SQNR dB", "max error", "NaN/Inf", "headroom");
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
  if (!report.exact)
    print_out("the export's routing form is inexact: router agreement is not to be expected\n");
  print_out("{}\n", report.passed ? "PASSED" : "FELL SHORT");
}

void print_validation_json(const ValidationReport& report) {
  auto shards = ordered_json::array();
  for (const ShardReport& shard : report.shards) shards.push_back(to_json(shard));
  const ordered_json json = {
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
  Diagnostics all = shortfalls(report);
  all.insert(all.end(), report.notes.begin(), report.notes.end());
  print_json(report.passed, json, all);
}

}  // namespace moec
