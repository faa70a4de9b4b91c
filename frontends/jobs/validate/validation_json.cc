#include "frontends/jobs/validate/validation_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const Comparison& c) {
  return {{"cosine", c.cosine},       {"relative_l2", c.relative_l2}, {"worst_row", c.worst_row},
          {"sqnr_db", c.sqnr_db},     {"max_abs", c.max_abs},         {"max_index", c.max_index},
          {"nonfinite", c.nonfinite}, {"headroom", c.headroom},       {"elements", c.elements}};
}

ordered_json to_json(const Thresholds& thresholds) {
  return {{"bits", thresholds.bits},
          {"cosine", thresholds.cosine},
          {"relative_l2", thresholds.relative_l2},
          {"worst_row", thresholds.worst_row}};
}

ordered_json to_json(const ShardReport& shard) {
  ordered_json json = {{"shard", shard.shard},
                       {"passed", shard.passed},
                       {"thresholds", to_json(shard.thresholds)},
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

// Errors that explain a failed validation; empty if it passed.
Diagnostics shortfalls(const ValidationReport& report) {
  Diagnostics found;
  const auto add = [&](std::string code, std::string cause, const std::string& shard) {
    found.push_back({Severity::error,
                     std::move(code),
                     std::move(cause),
                     "run moec validate without --json for the figures of each shard",
                     {.shard = shard}});
  };
  for (const ShardReport& shard : report.shards)
    if (!shard.passed)
      add("validate.shard",
          fmt::format("alone on golden inputs: cosine {:.9f} (at least {}), relative L2 {:.2e} "
                      "(at most {}), of the worst row {:.2e} (at most {}), {} NaN or infinite",
                      shard.alone.cosine, shard.thresholds.cosine, shard.alone.relative_l2,
                      shard.thresholds.relative_l2, shard.alone.worst_row,
                      shard.thresholds.worst_row, shard.alone.nonfinite),
          shard.shard);
  // The shards pass, so the text as a whole has missed its limits.
  if (!report.passed && found.empty())
    add("validate.text",
        fmt::format("the most likely next token agrees for {} of {} tokens, the greedy text for {} "
                    "of {}",
                    report.logits.same_top1, report.logits.tokens, report.greedy_equal,
                    report.greedy_wanted),
        {});
  return found;
}

}  // namespace

ordered_json validation_json(const ValidationReport& report) {
  auto shards = ordered_json::array();
  for (const ShardReport& shard : report.shards) shards.push_back(to_json(shard));
  ordered_json json = {
      {"engine", report.engine},
      {"precision", enum_name(report.precision)},
      {"exact_routing", report.exact},
      {"thresholds", to_json(report.thresholds)},
      {"shards", shards},
      {"logits",
       {{"tokens", report.logits.tokens},
        {"same_top1", report.logits.same_top1},
        {"mean_kl", report.logits.mean_kl}}},
      {"greedy", {{"wanted", report.greedy_wanted}, {"equal", report.greedy_equal}}}};
  if (!report.device.empty()) json["device"] = report.device;
  if (!report.top_k.empty()) json["top_k"] = report.top_k;
  if (report.drops)
    json["capacity"] = {{"choices", report.drops->choices()},
                        {"dropped", report.drops->dropped()},
                        {"drop_rate", report.drops->rate()}};
  // Errors come first, so that the first diagnostic explains "ok": false.
  Diagnostics all = shortfalls(report);
  all.insert(all.end(), report.notes.begin(), report.notes.end());
  return report_json(report.passed, json, all);
}

}  // namespace moec
