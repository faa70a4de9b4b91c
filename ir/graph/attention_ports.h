// Ports of a shard that leaves its attention open (open_attention in passes/passes.h): the scores,
// their softmax and the weighted values are computed outside of the shard, by an op of the engine
// with the shard's mask and caches. In a shard of several layers, the label of the layer that ends
// the names of its caches ends these names, too.
#pragma once

namespace moec {

// Outputs: queries [1, T, heads*head_dim], normed, rotated and scaled; a copy of the mask; and the
// sinks [1, heads, 1, 1] of attention with sinks. The new keys and values (kNewKeys and kNewValues)
// are [1, T, kv_heads*head_dim].
inline constexpr const char* kOpenQueries = "open_queries";
inline constexpr const char* kOpenMask = "open_mask";
inline constexpr const char* kOpenSinks = "open_sinks";
// Input: the result of the op, [1, T, heads*head_dim].
inline constexpr const char* kAttended = "open_attended";

}  // namespace moec
