// The top-k variants of an export (ir/experts/top_k_variants.h) and the graphs of its shards for
// each.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/experts/expert_sets.h"
#include "ir/experts/top_k_variants.h"

namespace moec {

// Returns the variants, default first. Empty if the export has none.
std::vector<TopKVariant> top_k_variants(const Manifest& manifest);

// Returns the grid for parsing the text of variants: the experts of all MoE layers of the model,
// even if a node has only some of these layers.
ExpertGrid top_k_grid(const Manifest& manifest);

// Returns the index in shard.widths of the graph of a variant for the width build.tokens[width]. A
// null `form` means the default variant. `widths` is the number of token widths.
size_t graph_index(const manifest::Shard& shard, size_t width, size_t widths,
                   const TopKVariant* form = nullptr);

// Returns the indices in shard.widths of all graphs for a width, one per distinct variant.
std::vector<size_t> graphs_of_width(const manifest::Shard& shard, size_t width, size_t widths);

// Returns true if every layer has the checkpoint's own k.
bool is_own(const manifest::TopK& top_k, const manifest::TopKVariant& form);

// Returns the names of the variants, such as "1, 2", followed by the checkpoint's k if it is not
// the default; empty without variants.
std::string describe_forms(const Manifest& manifest);

}  // namespace moec
