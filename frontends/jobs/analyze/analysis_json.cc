#include "frontends/jobs/analyze/analysis_json.h"

#include <nlohmann/json.hpp>

#include "ir/base/at.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

// An absent field means that the curve was not measured. An empty list would suggest a layer
// without experts.
void add_list(ordered_json& json, const char* name, const std::vector<double>& values) {
  if (!values.empty()) json[name] = values;
}

std::vector<int64_t> never_chosen(const LayerProfile& layer) {
  std::vector<int64_t> experts;
  for (size_t e = 0; e < layer.selections.size(); ++e)
    if (layer.selections[e] == 0) experts.push_back(static_cast<int64_t>(e));
  return experts;
}

ordered_json shares_json(const ExpertProfile& profile, const LayerStatistics& statistics) {
  ordered_json all = ordered_json::array();
  for (size_t c = 0; c < statistics.shares.size(); ++c) {
    ordered_json one = {{"name", profile.categories[c].name}};
    add_list(one, "share", statistics.shares[c].share);
    add_list(one, "low", statistics.shares[c].low);
    add_list(one, "high", statistics.shares[c].high);
    all.push_back(std::move(one));
  }
  return all;
}

ordered_json layer_json(const ExpertProfile& profile, const LayerProfile& layer,
                        const LayerStatistics& statistics) {
  ordered_json json = {{"layer", layer.layer},
                       {"tokens", layer.tokens},
                       {"entropy_bits", statistics.entropy_bits},
                       {"gini", statistics.gini},
                       {"order", statistics.order},
                       {"never_chosen", never_chosen(layer)}};
  add_list(json, "capture_mass", statistics.capture_mass);
  add_list(json, "capture", statistics.capture);
  add_list(json, "held_out", statistics.held_out);
  add_list(json, "latest", statistics.latest);
  if (!statistics.shares.empty()) json["categories"] = shares_json(profile, statistics);
  return json;
}

}  // namespace

ordered_json analysis_json(const Analysis& analysis, const std::string& folder) {
  const ExpertProfile& profile = analysis.profile;
  ordered_json categories = ordered_json::array(), layers = ordered_json::array();
  for (const ProfileCategory& one : profile.categories)
    categories.push_back(
        {{"name", one.name}, {"documents", one.documents}, {"tokens", one.tokens}});
  for (size_t i = 0; i < analysis.layers.size(); ++i)
    layers.push_back(layer_json(profile, profile.layers[i], analysis.layers[i]));
  // "out" must precede the measured fields, so it is inserted first; ordered_json keeps the order
  // of insertion.
  ordered_json fields = ordered_json::object();
  if (!folder.empty()) fields["out"] = folder;
  const ordered_json measured = {{"model", profile.model},
                                 {"source", profile.source},
                                 {"experts", profile.experts},
                                 {"top_k", profile.top_k},
                                 {"window", analysis.window},
                                 {"windows", analysis.windows},
                                 {"categories", std::move(categories)},
                                 {"layers", std::move(layers)}};
  fields.update(measured);
  return report_json(true, fields, analysis.notes);
}

}  // namespace moec
