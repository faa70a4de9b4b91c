#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/jobs/upcycle/provenance.h"
#include "frontends/jobs/upcycle/upcycle_model.h"
#include "ir/base/report_json.h"

namespace moec {

using nlohmann::ordered_json;

namespace {

ordered_json comparison_json(const UpcycleComparison& comparison, double max_error) {
  return {{"tokens", comparison.tokens},
          {"max_relative_error", comparison.max_error},
          {"allowed", max_error},
          {"mean_kl", comparison.mean_kl},
          {"top1", comparison.top1},
          {"choices", comparison.choices},
          {"whole_groups", comparison.whole_rate()}};
}

ordered_json layers_json(const ModelConfig& model) {
  ordered_json layers = ordered_json::array();
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].moe) layers.push_back(i);
  return layers;
}

}  // namespace

ordered_json upcycle_json(const UpcycleReport& report, double seconds) {
  const ModelConfig& model = report.plan.result;
  ordered_json fields = {{"source", report.source},
                         {"out", report.out},
                         {"dry_run", report.dry_run},
                         {"seconds", seconds},
                         {"architecture", model.family},
                         {"experts", model.moe.experts},
                         {"top_k", model.moe.routing.top_k},
                         {"group", report.plan.group},
                         {"expert_width", model.moe.expert_ff},
                         {"shared_width", model.moe.shared_ff},
                         {"layers", layers_json(model)},
                         {"exactness", exactness_json(report.plan.exact)},
                         {"factors",
                          {{"gate", report.plan.factors.gate},
                           {"up", report.plan.factors.up},
                           {"down", report.plan.factors.down}}},
                         {"tensors", report.plan.tensors.size()},
                         {"tensor_bytes", report.tensor_bytes},
                         {"files", files_json(report.files)}};
  if (report.comparison)
    fields["comparison"] = comparison_json(*report.comparison, report.max_error);
  // Errors precede notes, so that the first diagnostic explains "ok": false.
  Diagnostics all = shortfalls(report);
  all.insert(all.end(), report.plan.notes.begin(), report.plan.notes.end());
  return report_json(report.passed(), fields, all);
}

Diagnostics shortfalls(const UpcycleReport& report) {
  if (report.passed()) return {};
  // An exact class claims equality, so a large error then hints at a bug.
  const bool claimed = report.plan.exact.kind == Exactness::exact;
  return {
      {Severity::error,
       "upcycle.verify",
       fmt::format("logits differ from the dense model's by {:.3g}, more than {:.3g}; the model "
                   "is {}",
                   report.comparison->max_error, report.max_error, to_string(report.plan.exact)),
       claimed ? "repeat with --dtype f32: if that fails too, the model amplifies rounding, or "
                 "moec has a bug"
               : "choose exact options, or raise --max-error",
       {.file = report.out}}};
}

}  // namespace moec
