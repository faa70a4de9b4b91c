// What `moec probe --write` measured of groups of experts on a suite of prompts, as it stands in
// probe.json of an export. A service chooses a group by it without running the model: by the
// category of a prompt, or by what the routers of one node gave to its first tokens.
//
//   {"format": "moec.probe_table", "version": 1, "prefill": 32,
//    "layers": [0, 1], "experts": 16,
//    "groups": [{"name": "node0", "experts": "L0:0-7;L1:1,3,5"}, …],
//    "categories": [{"name": "code", "documents": 12, "routing": [[0.11, …], […]],
//                    "kept": [0.83, …], "log_probability": [-1.2, …], "regret": [0.01, …]}, …]}
//
// It is a file of groups as well (expert_groups.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/experts/expert_groups.h"

namespace moec {

inline constexpr const char* kProbeTableFile = "probe.json";

// Of each of ProbeTable::layers the share that each expert has of the routing weights of some
// tokens; 0 for all where no token chose an expert.
using RoutingShares = std::vector<std::vector<double>>;

// Means over the documents of a category.
struct ProbeCategory {
  std::string name;
  int64_t documents = 0;
  RoutingShares routing;  // of the first tokens
  // A number for each group: the share of that routing that its experts have; the log-probability
  // of the tokens behind the first ones with its experts alone, nats a token; and by how much this
  // is below that of the group which is best for the document.
  std::vector<double> kept, log_probability, regret;
  bool operator==(const ProbeCategory&) const = default;
};

struct ProbeTable {
  int64_t prefill = 0;          // how many tokens are the first ones
  std::vector<int64_t> layers;  // MoE layers, ascending
  int64_t experts = 0;          // of each
  std::vector<ExpertGroup> groups;
  std::vector<ProbeCategory> categories;  // at least one
  bool operator==(const ProbeTable&) const = default;
};

// The category whose routing is nearest to this one: with the smallest sum of squared differences,
// of equals the first.
const ProbeCategory& nearest_category(const ProbeTable& table, const RoutingShares& routing);

// The text of the file. All numbers must be finite; they are rounded to six digits.
std::string probe_table_text(const ProbeTable& table);

// Errors: probe_table.syntax, probe_table.duplicate_key, probe_table.missing_field,
// probe_table.unknown_field, probe_table.bad_value (of another model than the grid is, a list of
// another length, a number that cannot be, a category twice), those of parse_expert_groups() and
// check_enough(), each with the file.
Result<ProbeTable> parse_probe_table(std::string_view text, const std::string& file,
                                     const ExpertGrid& grid);

// Reads a file. Errors: probe_table.file, and those of parse_probe_table().
Result<ProbeTable> read_probe_table(const std::string& path, const ExpertGrid& grid);

}  // namespace moec
