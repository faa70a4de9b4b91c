// What moec probe found for documents: the group of experts that was chosen for each, how each
// group does on the rest of it, and what such choices lose on the whole.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/bootstrap.h"
#include "ir/base/enum_table.h"
#include "ir/experts/probe_table.h"

namespace moec {

// By what a group is chosen.
//   mass   the share of the routing weights of the first tokens that its experts have
//   table  the log-probability that the export's table has for it, in the category whose routing is
//          nearest to that of the first tokens
enum class ProbeScore : uint8_t { mass, table };
constexpr auto enum_names(ProbeScore) { return name_table<ProbeScore>({"mass", "table"}); }

struct ProbedGroup {
  double kept = 0;             // the share of the routing weights of the first tokens
  double score = 0;            // by which the group was chosen
  double log_probability = 0;  // mean of the tokens behind the first ones, with its experts alone
};

struct ProbedDocument {
  std::string category;
  std::string nearest;  // the category of the table; empty with mass
  // Tokens. Without a rest, as with models that label tokens, nothing is known of how a group does.
  int64_t seen = 0, rest = 0;
  RoutingShares routing;  // of the first tokens
  std::vector<ProbedGroup> groups;
  size_t chosen = 0, best = 0;  // by score, and by log-probability; ties go to the first
  // Nats a token that a group loses against the best one.
  double regret(size_t group) const {
    return groups[best].log_probability - groups[group].log_probability;
  }
};

// Over the documents with a rest. Bounds are over the documents.
struct ProbeFigures {
  BootstrapMean hits;               // how often the best group was chosen
  BootstrapMean regret;             // of the choice
  size_t one = 0;                   // the group that is best for all of these documents together
  BootstrapMean regret_of_one;      // of always that group
  BootstrapMean regret_of_chance;   // of any group with the same probability
  std::vector<BootstrapMean> load;  // by group: the share of documents that it gets
};

struct ProbeReport {
  ProbeScore score = ProbeScore::mass;
  int64_t prefill = 0;
  ExpertGrid grid;
  std::vector<ExpertGroup> groups;
  std::vector<ProbedDocument> documents;
  std::optional<ProbeFigures> figures;  // nothing where no document has a rest
};

std::optional<ProbeFigures> probe_figures(const std::vector<ProbedDocument>& documents);

// The table of the documents with a rest. Error probe.no_rest where there are none.
Result<ProbeTable> probe_table_of(const ProbeReport& report);

nlohmann::ordered_json probe_json(const ProbeReport& report);
// Lines for people.
std::string probe_text(const ProbeReport& report);

}  // namespace moec
