// `moec discover`: predicts which experts a text uses, without reading experts.
//
// Runs routers, attention, dense MLPs and shared experts; skipped groups of routed experts forward
// their residual input. As a result, later layers see other hidden states than in a full run and
// may pick different experts. The result is a prediction. Its recall can be measured.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/measure/analyze_options.h"
#include "ir/experts/expert_profile.h"

namespace moec {

struct DiscoverOptions {
  AnalyzeOptions run;   // the source must be an export; only the profile is written
  std::string file;     // output file of the profile
  bool force = false;   // replace an existing file
  bool recall = false;  // also run the whole model, and compare
};

// Comparison of a layer's discovery with a full run.
struct LayerRecall {
  int64_t layer = 0;
  int64_t used = 0, found = 0;  // experts that the full run used; of these, the discovered ones
  double choices = 0;           // share of the full run's picks discovered for the same token
  // Share of the full run's picks for the half of the experts with the most discovered picks, and
  // for the half with the most picks in the full run.
  double top_half = 0, best_half = 0;
};

struct Discovery {
  ExpertProfile profile;
  std::string file;
  // Weight bytes of the shards that ran, each counted once, and of the shards that a full run of
  // the text needs. The latter are measured only with `recall`; otherwise, all shards count.
  int64_t bytes_read = 0, bytes_full = 0;
  std::vector<LayerRecall> recall;  // empty without DiscoverOptions::recall
  Diagnostics notes;
};

// Writes the profile. Errors: those of Session and read_analysis_text(); analyze.no_experts,
// analyze.no_router; discover.no_groups (experts are not in separate shards); write errors.
Result<Discovery> discover_experts(const DiscoverOptions& options);

std::string discovery_table(const Discovery& discovery);
nlohmann::ordered_json discovery_json(const Discovery& discovery);

}  // namespace moec
