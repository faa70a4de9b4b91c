// The graphs between the shards of a pipeline, each for one token width T. Ports are those of the
// shards; README.md describes the stages.
#pragma once

#include <set>
#include <string>

#include "backends/formats/genai/glue_builder.h"
#include "backends/formats/genai/pipeline_names.h"
#include "backends/manifest/manifest.h"

namespace moec {

struct PipelineSource {
  const Manifest& manifest;  // of the export, with its shards
  // Layers whose values are the last channels of their keys, as in the cache of latent attention.
  std::set<int64_t> values_in_keys;
};

// Outputs of front_graph(), i64 [1]: rows of the caches before and after the step, and the number
// of padding tokens, which precede the step's tokens.
inline constexpr const char* kCacheBegin = "cache.begin";
inline constexpr const char* kCacheEnd = "cache.end";
inline constexpr const char* kPadding = "cache.padding";
// The output of end_graph(). The heads' own outputs are named "logits", which would mislead the
// engine.
inline constexpr const char* kPipelineLogits = "lm_logits";

// The graph of a shard for T tokens, that of the default top-k variant.
const manifest::Width& width_of(const Manifest& manifest, const std::string& shard, int64_t tokens);

// From input_ids, position_ids and attention_mask: the rows of the embedding, rotations, masks, and
// the three values above. Must be written to the folder of the tables.
GlueGraph front_graph(const PipelineSource& source, const PipelineNames& names, int64_t tokens);

// Copies the caches and renamed values (PipelineNames::is_renamed) to the ports of a step.
GlueGraph ports_graph(const PipelineSource& source, const PipelineNames& names,
                      const manifest::Step& step, int64_t tokens);

// Writes the new rows of a step into its caches.
GlueGraph cache_graph(const PipelineSource& source, const manifest::Step& step, int64_t tokens);

// Joins slices of logits, named logit_slice(index), to those of the last token, [1, 1, V].
GlueGraph end_graph(const PipelineSource& source, int64_t tokens);
std::string logit_slice(size_t index);

}  // namespace moec
