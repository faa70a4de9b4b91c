#include "frontends/export/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/manifest/written_file.h"
#include "backends/output/out_folder.h"
#include "backends/weights/calibration/load_variation.h"
#include "frontends/compile/cuts_json.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json shard_json(const ExportedShard& exported) {
  auto passes = ordered_json::array();
  for (const PassReport& pass : exported.passes)
    passes.push_back({{"pass", pass.pass},
                      {"changed", pass.changed},
                      {"ops_before", pass.ops_before},
                      {"ops_after", pass.ops_after}});
  auto notes = ordered_json::array();
  for (const Diagnostic& note : exported.notes) notes.push_back(render(note));
  return {{"shard", exported.shard.name}, {"passes", passes}, {"notes", notes}};
}

ordered_json chosen_json(const WeightPolicy& weights) {
  auto list = ordered_json::array();
  for (const auto& [tensor, form] : weights.chosen) {
    ordered_json one = {{"layer", tensor.layer}, {"role", tensor.role}};
    // -1 means that the tensor contains all experts.
    if (tensor.expert >= 0) one["expert"] = tensor.expert;
    one["form"] = to_string(form);
    list.push_back(std::move(one));
  }
  return list;
}

ordered_json fallbacks_json(const CalibrationStats& calibration) {
  auto list = ordered_json::array();
  for (const ExpertFallback& one : calibration.fallbacks())
    list.push_back({{"layer", one.id.layer},
                    {"expert", one.id.expert},
                    {"tokens", one.tokens},
                    {"weight", one.weight}});
  return list;
}

ordered_json loads_json(const CalibrationStats& calibration) {
  auto list = ordered_json::array();
  for (const LayerLoads& one : expert_loads(calibration.index()))
    list.push_back({{"layer", one.layer}, {"variation", one.variation}});
  return {{"narrowness", calibration.narrowness()}, {"loads", list}};
}

// Maximum number of experts that a note names; the report lists all.
constexpr size_t kNamedExperts = 6;

// A text gets a note if the maximum weight of its moments is below this.
constexpr double kNoted = 0.5;

std::string names_of(std::span<const ExpertFallback> experts) {
  std::string names;
  for (const ExpertFallback& one : experts.first(std::min(experts.size(), kNamedExperts)))
    names +=
        fmt::format("{}L{:02} expert {}{}", names.empty() ? "" : ", ", one.id.layer, one.id.expert,
                    one.tokens > 0 ? fmt::format(" ({} tokens)", one.tokens) : "");
  if (experts.size() > kNamedExperts)
    names += fmt::format(" and {} more", experts.size() - kNamedExperts);
  return names;
}

}  // namespace

Result<manifest::FileRef> write_report(const std::string& folder, const ReportFacts& facts,
                                       bool sha256) {
  auto list = ordered_json::array();
  for (const ExportedShard& exported : facts.shards) list.push_back(shard_json(exported));
  ordered_json whole = {
      {"parameters", {{"all", facts.parameters.parameters}, {"active", facts.parameters.active}}},
      {"weights", to_string(facts.weights)}};
  // Members that do not apply are omitted, not empty: their presence shows that the option was
  // used.
  if (facts.weights.chooses_bits()) whole["chosen"] = chosen_json(facts.weights);
  if (facts.calibration) {
    whole["few_tokens"] = fallbacks_json(*facts.calibration);
    whole["calibration_text"] = loads_json(*facts.calibration);
  }
  whole["cuts"] = cuts_json(facts.cuts);
  whole["shards"] = std::move(list);
  return manifest::write_listed_file(folder, kReportFile, json_text(whole, 1) + "\n", sha256);
}

Diagnostics note_fallbacks(const CalibrationStats* calibration) {
  // Separates experts without any token, whose moments are only those of their layer.
  std::vector<ExpertFallback> few, none;
  if (calibration)
    for (const ExpertFallback& one : calibration->fallbacks())
      (one.tokens > 0 ? few : none).push_back(one);
  if (few.empty() && none.empty()) return {};
  std::string cause;
  if (!none.empty())
    cause = fmt::format("no token of the calibration chose {} experts: {}", none.size(),
                        names_of(none));
  if (!few.empty())
    cause += fmt::format(
        "{}{} experts saw few tokens, so at least half of their moments are those of "
        "their layer: {}",
        cause.empty() ? "" : "; ", few.size(), names_of(few));
  return {{Severity::note,
           "calibrate.few_tokens",
           std::move(cause),
           "calibrate with more text (report.json lists all these experts)",
           {}}};
}

Diagnostics note_narrow_text(const CalibrationStats* calibration) {
  const double narrowness = calibration ? calibration->narrowness() : 0;
  // Without a calibration, narrowness is 0 and no note follows.
  const double most = most_believed(narrowness);
  if (most >= kNoted) return {};
  return {{Severity::note,
           "calibrate.narrow_text",
           fmt::format("the calibration text chose experts unevenly (narrowness {:.2f}; text like "
                       "the training data has nearly 0), so its moments count for at most {:.0f} %",
                       narrowness, 100 * most),
           "calibrate with more varied text (layers: calibration_text in report.json)",
           {}}};
}

}  // namespace moec
