// The job of `moec discover`: which experts a text wants, without reading experts.
//
// Routers, attention, dense MLPs and shared experts run; the groups of routed experts do not, and
// pass on what they would add to. Later layers therefore see other hidden states than in a full
// run, and choose partly other experts: the result is a guess, whose recall can be measured.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/measure/analyze_options.h"
#include "ir/experts/expert_profile.h"

namespace moec {

struct DiscoverOptions {
  AnalyzeOptions run;   // of an export; other files than the profile are not written
  std::string file;     // of the profile
  bool force = false;   // replaces the file
  bool recall = false;  // run the whole model as well, and compare
};

// What of a layer's experts in a full run the discovery found.
struct LayerRecall {
  int64_t layer = 0;
  int64_t used = 0, found = 0;  // experts that the full run used; of these, those discovered
  double choices = 0;           // part of the full run's choices that the same token made here
  double top_half = 0, best_half = 0;  // part of the full run's choices that the half of the
                                       // experts takes that was discovered most, and its own best
};

struct Discovery {
  ExpertProfile profile;
  std::string file;
  // Bytes of the weights of the shards that ran, each counted once, and of those that a full run
  // of the same text needs; that is measured with `recall`, else it is all shards.
  int64_t bytes_read = 0, bytes_full = 0;
  std::vector<LayerRecall> recall;  // empty unless it was asked for
  Diagnostics notes;
};

// Writes the profile. Errors: those of Session and read_analysis_text(); analyze.no_experts,
// analyze.no_router; discover.no_groups (the experts are no shards of their own), those of writing.
Result<Discovery> discover_experts(const DiscoverOptions& options);

std::string discovery_table(const Discovery& discovery);
nlohmann::ordered_json discovery_json(const Discovery& discovery);

}  // namespace moec
