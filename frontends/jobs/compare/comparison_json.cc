#include "frontends/jobs/compare/comparison_json.h"

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const WindowMean& value) {
  // A single window has no standard error; null keeps the field for readers.
  ordered_json json = {{"mean", value.mean}, {"standard_error", nullptr}};
  if (value.standard_error) json["standard_error"] = *value.standard_error;
  return json;
}

// The SQNR of equal values is infinite, which JSON represents as null.
ordered_json to_json(const ValueComparison& c) {
  ordered_json json = {{"sqnr_db", c.all.sqnr_db}};
  if (c.mean_cosine) json["mean_cosine"] = *c.mean_cosine;
  json.update({{"cosine", c.all.cosine},
               {"relative_l2", c.all.relative_l2},
               {"nonfinite", c.all.nonfinite},
               {"elements", c.all.elements}});
  return json;
}

ordered_json to_json(const PredictionComparison& found, bool bytes) {
  ordered_json json = {{"tokens", found.tokens},
                       {"nonfinite", found.nonfinite},
                       {"kl", to_json(found.kl)},
                       {"kl_p99", found.kl_p99},
                       {"top1", to_json(found.top1)}};
  // Models that label tokens predict no next token and have no bits.
  if (found.bits)
    json["bits"] = {{"per", bytes ? "byte" : "token"},
                    {"tokens", found.bits->tokens},
                    {"a", to_json(found.bits->reference)},
                    {"b", to_json(found.bits->compared)},
                    {"difference", to_json(found.bits->difference)}};
  return json;
}

// Omits the figures of an expert that no token picked.
ordered_json to_json(const ComparedExpert& expert) {
  ordered_json json = {
      {"layer", expert.id.layer}, {"expert", expert.id.expert}, {"tokens", expert.tokens}};
  if (expert.tokens == 0) return json;
  json["sqnr_db"] = expert.output.sqnr_db;
  json["cosine"] = expert.output.cosine;
  json["relative_l2"] = expert.output.relative_l2;
  json["nonfinite"] = expert.output.nonfinite;
  return json;
}

ordered_json to_json(const ComparedRouter& router) {
  const RoutingComparison& routing = router.routing;
  return {{"layer", router.layer},
          {"tokens", routing.tokens},
          {"flipped_sets", routing.flipped_sets},
          {"weight_moved", routing.moved_weight},
          {"tokens_of_experts", routing.chosen_by},
          {"never_routed", routing.never_routed()}};
}

}  // namespace

ordered_json comparison_json(const CompareReport& report) {
  // An empty array, not null, for reports without these parts.
  auto shards = ordered_json::array(), experts = shards, routers = shards;
  for (const ComparedShard& shard : report.shards) {
    ordered_json json = to_json(shard.output);
    json["shard"] = shard.shard;
    if (shard.cache) json["cache"] = to_json(*shard.cache);
    shards.push_back(std::move(json));
  }
  for (const ComparedExpert& expert : report.experts) experts.push_back(to_json(expert));
  for (const ComparedRouter& router : report.routers) routers.push_back(to_json(router));
  ordered_json json = {{"window", report.window},
                       {"windows", report.windows},
                       {"unused_tokens", report.unused_tokens}};
  if (!report.top_k.empty()) json["top_k"] = report.top_k;
  if (report.drops) json["drop_rate"] = report.drops->rate();
  json.update(to_json(report.predictions, report.bytes));
  json["shards"] = shards;
  json["experts"] = experts;
  json["routers"] = routers;
  return report_json(report.passed, json, report.findings);
}

}  // namespace moec
