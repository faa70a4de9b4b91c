// The probe table: results of `moec probe --write` for groups of experts on a suite of prompts,
// stored as probe.json in an export. A service uses it to choose a group without running the whole
// model: by the category of a prompt, or by the routing weights of the prompt's first tokens,
// computed by the routers of one node.
//
//   {"format": "moec.probe_table", "version": 1, "prefill": 32,
//    "layers": [0, 1], "experts": 16,
//    "groups": [{"name": "node0", "experts": "L0:0-7;L1:1,3,5"}, …],
//    "categories": [{"name": "code", "documents": 12, "routing": [[0.11, …], […]],
//                    "kept": [0.83, …], "log_probability": [-1.2, …], "regret": [0.01, …]}, …]}
//
// The file is also a valid file of groups (expert_groups.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/experts/expert_groups.h"

namespace moec {

inline constexpr const char* kProbeTableFile = "probe.json";

// For each of ProbeTable::layers, the share of each expert in the total routing weight of some
// tokens. All shares are 0 if no token chose an expert.
using RoutingShares = std::vector<std::vector<double>>;

// Means over the documents of a category.
struct ProbeCategory {
  std::string name;
  int64_t documents = 0;
  RoutingShares routing;  // of the first tokens
  // One number per group. kept: share of `routing` that falls on the group's experts.
  // log_probability: mean log probability of the later tokens with only the group's experts, in
  // nats per token. regret: difference from the log_probability of each document's best group.
  std::vector<double> kept, log_probability, regret;
  bool operator==(const ProbeCategory&) const = default;
};

struct ProbeTable {
  int64_t prefill = 0;          // number of first tokens
  std::vector<int64_t> layers;  // MoE layers, ascending
  int64_t experts = 0;          // per layer
  std::vector<ExpertGroup> groups;
  std::vector<ProbeCategory> categories;  // at least one
  bool operator==(const ProbeTable&) const = default;
};

// Returns the category whose routing has the smallest squared distance from `routing`; the first
// one on a tie.
const ProbeCategory& nearest_category(const ProbeTable& table, const RoutingShares& routing);

// Returns the text of the file. All numbers must be finite; they are rounded to six digits.
std::string probe_table_text(const ProbeTable& table);

// Errors: probe_table.syntax, probe_table.duplicate_key, probe_table.missing_field,
// probe_table.unknown_field, probe_table.bad_value (a table of another model than `grid`, a list of
// another length, an impossible number, a category twice). Also those of parse_expert_groups() and
// check_enough(). Each names the file.
Result<ProbeTable> parse_probe_table(std::string_view text, const std::string& file,
                                     const ExpertGrid& grid);

// Reads a file. Errors: probe_table.file, and those of parse_probe_table().
Result<ProbeTable> read_probe_table(const std::string& path, const ExpertGrid& grid);
// The same without the model, whose layers and experts are taken from the table itself.
Result<ProbeTable> read_any_probe_table(const std::string& path);

}  // namespace moec
