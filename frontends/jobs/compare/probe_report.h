// Result of moec probe: per document, the chosen group of experts and the quality of each group on
// the remaining tokens; and the average loss of such choices.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/bootstrap.h"
#include "ir/base/enum_table.h"
#include "ir/experts/probe_table.h"

namespace moec {

// Criterion for choosing a group.
//   mass   the group's share of the routing weights of the first tokens
//   table  the group's log-probability in the export's table, for the category whose routing is
//          nearest to that of the first tokens
enum class ProbeScore : uint8_t { mass, table };
constexpr auto enum_names(ProbeScore) { return name_table<ProbeScore>({"mass", "table"}); }

struct ProbedGroup {
  double kept = 0;             // share of the routing weights of the first tokens
  double score = 0;            // value of the criterion
  double log_probability = 0;  // mean over the remaining tokens, with all other experts masked
};

struct ProbedDocument {
  std::string category;
  std::string nearest;  // category of the table; empty with ProbeScore::mass
  // Numbers of tokens. If `rest` is 0, as for models that label tokens, the quality of the groups
  // is unknown.
  int64_t seen = 0, rest = 0;
  RoutingShares routing;  // of the first tokens
  std::vector<ProbedGroup> groups;
  size_t chosen = 0, best = 0;  // by score, and by log-probability; ties go to the first
  // Loss of a group relative to the best group, in nats per token.
  double regret(size_t group) const {
    return groups[best].log_probability - groups[group].log_probability;
  }
};

// Figures over the documents with remaining tokens. Bounds are over documents.
struct ProbeFigures {
  BootstrapMean hits;               // share of documents for which the best group was chosen
  BootstrapMean regret;             // of the choices
  size_t one = 0;                   // the best single group for all documents together
  BootstrapMean regret_of_one;      // of always choosing group `one`
  BootstrapMean regret_of_chance;   // of a uniformly random choice
  std::vector<BootstrapMean> load;  // per group: share of documents that choose it
};

struct ProbeReport {
  ProbeScore score = ProbeScore::mass;
  int64_t prefill = 0;
  ExpertGrid grid;
  std::vector<ExpertGroup> groups;
  std::vector<ProbedDocument> documents;
  std::optional<ProbeFigures> figures;  // none if no document has remaining tokens
};

std::optional<ProbeFigures> probe_figures(const std::vector<ProbedDocument>& documents);

// Builds the table from the documents with remaining tokens. Error probe.no_rest: there are no such
// documents.
Result<ProbeTable> probe_table_of(const ProbeReport& report);

nlohmann::ordered_json probe_json(const ProbeReport& report);
// Human-readable text.
std::string probe_text(const ProbeReport& report);

}  // namespace moec
