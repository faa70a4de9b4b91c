#include "frontends/jobs/residency/discover_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/files/output_file.h"
#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/residency/pinned_experts.h"
#include "frontends/measure/analysis.h"
#include "frontends/measure/routed_run.h"
#include "ir/base/at.h"
#include "ir/base/byte_text.h"
#include "ir/base/output_apart.h"
#include "ir/base/report_json.h"
#include "ir/base/worst_rows.h"

namespace moec {
namespace {

Status check_has_groups(const Manifest& manifest, const std::string& folder) {
  const auto& schedule = manifest.schedule;
  // A step of experts exists only if the experts are in shards without the router.
  if (std::any_of(schedule.begin(), schedule.end(),
                  [&](const manifest::Step& step) { return is_expert_step(manifest, step); }))
    return {};
  return fail("discover.no_groups",
              "the router cannot run without experts, because they are in the same shard",
              "export with --routing host --experts-per-shard 1", {.file = folder});
}

int64_t sum_of_selections(const LayerProfile& layer) {
  int64_t sum = 0;
  for (const int64_t count : layer.selections) sum += count;
  return sum;
}

// Returns the share of the layer's picks that go to the `most` experts with the most picks in
// `order`.
double taken_by(const LayerProfile& layer, const LayerProfile& order, int64_t most) {
  ExpertProfile one;
  // most_chosen() accepts a profile of several layers, so the layer is wrapped in one.
  one.layers = {order};
  int64_t taken = 0;
  for (const ExpertId& key : most_chosen(one, most)) taken += at(layer.selections, key.expert);
  const int64_t all = sum_of_selections(layer);
  // A layer without picks counts as found: nothing was missed.
  return all == 0 ? 1 : static_cast<double>(taken) / static_cast<double>(all);
}

LayerRecall recall_of(const LayerMeasurement& found, const LayerMeasurement& full) {
  LayerRecall recall{.layer = full.profile.layer};
  const auto& selections = full.profile.selections;
  for (size_t e = 0; e < selections.size(); ++e) {
    // Counts an expert as found if any token discovered it, not only the tokens that use it.
    recall.used += selections[e] > 0;
    recall.found += selections[e] > 0 && found.profile.selections[e] > 0;
  }
  std::set<std::pair<int64_t, int64_t>> chosen;
  // A set of pairs, because the two runs may list the picks of a token in different order.
  for (const ExpertChoice& choice : found.choices) chosen.insert({choice.token, choice.expert});
  const auto same =
      std::count_if(full.choices.begin(), full.choices.end(), [&](const ExpertChoice& choice) {
        return chosen.contains({choice.token, choice.expert});
      });
  recall.choices = full.choices.empty()
                       ? 1
                       : static_cast<double>(same) / static_cast<double>(full.choices.size());
  const int64_t half = std::ssize(selections) / 2;
  recall.top_half = taken_by(full.profile, found.profile, half);
  recall.best_half = taken_by(full.profile, full.profile, half);
  return recall;
}

int64_t bytes_of_shards(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const manifest::Shard& shard : manifest.shards) bytes += shard.weight_bytes;
  return bytes;
}

Status add_recall(const DiscoverOptions& options, Session& session, const Text& text,
                  const RoutedRun& found, Discovery& discovery) {
  MOEC_ASSIGN(const RoutedRun full, run_routed(session, options.run, text, RoutedSteps::all));
  // Replaces the sum of all shards by the shards that the full run read.
  discovery.bytes_full = full.bytes;
  for (size_t i = 0; i < full.layers.size(); ++i)
    discovery.recall.push_back(recall_of(found.layers[i], full.layers[i]));
  return {};
}

}  // namespace

Result<Discovery> discover_experts(const DiscoverOptions& options) {
  MOEC_ASSIGN(Session session, Session::open(options.run.source, read_shard, options.run.session));
  const Manifest& manifest = session.manifest();
  // Checks the output before the run, so that a long discovery does not fail at its end.
  MOEC_TRY(check_user_output({options.file, "--out", options.force}, options.run.source));
  const ExpertGrid grid = expert_grid(manifest);
  MOEC_TRY(check_has_experts(std::ssize(grid.layers), options.run.source));
  MOEC_TRY(check_has_groups(manifest, options.run.source));
  MOEC_ASSIGN(const Text text, read_analysis_text(options.run, manifest));
  MOEC_ASSIGN(RoutedRun found, run_routed(session, options.run, text, RoutedSteps::trunk));
  Discovery discovery{.file = options.file,
                      .bytes_read = found.bytes,
                      .bytes_full = bytes_of_shards(manifest),
                      .notes = note_precision(manifest, options.run.session.precision)};
  // Must precede analysis_of(), which consumes found.layers.
  if (options.recall) MOEC_TRY(add_recall(options, session, text, found, discovery));
  MOEC_ASSIGN(Analysis analysis, analysis_of(Measurement{manifest.model.family,
                                                         {},
                                                         "discovery",
                                                         grid.experts,
                                                         grid.top_k,
                                                         text,
                                                         std::move(found.layers),
                                                         {}}));
  discovery.profile = std::move(analysis.profile);
  MOEC_TRY(write_user_file(options.file, expert_profile_text(discovery.profile)));
  return discovery;
}

std::string discovery_table(const Discovery& discovery) {
  std::string out = fmt::format(
      "read {} of weights, {} {} ({:.1f} times less)\n", decimal_bytes(discovery.bytes_read),
      discovery.recall.empty() ? "the whole model has" : "a full run of the text",
      decimal_bytes(discovery.bytes_full),
      static_cast<double>(discovery.bytes_full) / static_cast<double>(discovery.bytes_read));
  if (discovery.recall.empty()) return out;
  out +=
      "\nlayer   experts used       discovered     picks found     discovered half   best half\n";
  std::vector<RankedRow> rows;
  for (const LayerRecall& layer : discovery.recall)
    rows.push_back({fmt::format("{:>5} {:>14} {:>16} {:>13.1f} % {:>17.1f} % {:>9.1f} %\n",
                                layer.layer, layer.used, layer.found, 100 * layer.choices,
                                100 * layer.top_half, 100 * layer.best_half),
                    -layer.choices});
  return out + worst_rows(rows, kOnlyTableRows, "layers with the fewest picks found");
}

nlohmann::ordered_json discovery_json(const Discovery& discovery) {
  using nlohmann::ordered_json;
  // "exact" is false, because later layers read hidden states without experts.
  ordered_json fields = {{"profile", discovery.file},
                         {"bytes_read", discovery.bytes_read},
                         {"bytes_full", discovery.bytes_full},
                         {"exact", false}};
  for (const LayerRecall& layer : discovery.recall)
    fields["recall"].push_back({{"layer", layer.layer},
                                {"used", layer.used},
                                {"found", layer.found},
                                {"choices", layer.choices},
                                {"top_half", layer.top_half},
                                {"best_half", layer.best_half}});
  return report_json(true, fields, discovery.notes);
}

}  // namespace moec
