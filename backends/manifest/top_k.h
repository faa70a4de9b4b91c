// The forms of top-k of an export (ir/experts/top_k_forms.h), and which graphs of its shards belong
// to them.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/experts/expert_sets.h"
#include "ir/experts/top_k_forms.h"

namespace moec {

// The default first. Empty where the export has none.
std::vector<TopKForm> top_k_forms(const Manifest& manifest);

// What their texts are read with: the experts of all MoE layers of the model, also in a node that
// has some of them.
ExpertGrid top_k_grid(const Manifest& manifest);

// The place among shard.widths of the graph for the width build.tokens[width] in a form; null: in
// the first one.
size_t graph_index(const manifest::Shard& shard, size_t width, size_t widths,
                   const TopKForm* form = nullptr);

// In which places of shard.widths there are graphs for a width, one for each different form.
std::vector<size_t> graphs_of_width(const manifest::Shard& shard, size_t width, size_t widths);

// Whether every layer takes as many experts as the checkpoint says.
bool is_own(const manifest::TopK& top_k, const manifest::TopKForm& form);

// "1, 2", with the checkpoint's own number where it is none of them; empty without forms.
std::string describe_forms(const Manifest& manifest);

}  // namespace moec
