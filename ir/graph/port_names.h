// Names of the ports of emitted shards. Builders declare the ports, the plan's schedule binds them,
// emitters write them into files, and runtimes of others rely on them: a changed name is a changed
// file format.
#pragma once

namespace moec {

// The residual stream: into a shard with attention, out of attention and into the feed-forward
// part, and out of that.
inline constexpr const char* kResidualPort = "x";
inline constexpr const char* kHiddenPort = "hidden";
inline constexpr const char* kMoeOutPort = "moe_out";

// Attention: rows of the rotation's tables and a factor for the queries, for each token of the
// step.
inline constexpr const char* kRopeCosPort = "rope_cos";
inline constexpr const char* kRopeSinPort = "rope_sin";
inline constexpr const char* kQueryScalePort = "query_scale";
// Added to the scores; 1 where a new token is written to a row of the cache.
inline constexpr const char* kMaskPort = "attn_mask";
inline constexpr const char* kWriteMaskPort = "kv_write_mask";
// The cache, whether as states of the device or as inputs.
inline constexpr const char* kKeyState = "k_state";
inline constexpr const char* kValueState = "v_state";
// The new rows, where the runtime stores them.
inline constexpr const char* kNewKeys = "k_new";
inline constexpr const char* kNewValues = "v_new";
// What a convolution over tokens reads of earlier ones, and hands to later ones.
inline constexpr const char* kHistoryPort = "history";
inline constexpr const char* kNewHistory = "history_new";
// Recurrent mixers: the state before and after the step; 1 for tokens of the step, 0 for padding.
inline constexpr const char* kRecurrentState = "recurrent_state";
inline constexpr const char* kNewRecurrentState = "recurrent_state_new";
inline constexpr const char* kTokenMaskPort = "token_mask";

// The routing weights of all experts, between a shard of the router and the expert groups.
inline constexpr const char* kRoutingWeights = "routing_weights";
// No port, but the label of what these are before an expert drops tokens beyond its capacity.
inline constexpr const char* kUncappedWeights = "uncapped_weights";
// The sum of the residual stream and what ran before of the layer's MLP or experts, into a group of
// experts or a slice of their width.
inline constexpr const char* kPartialSumPort = "acc";
// Where norms lie between a layer's parts and the residual stream: the sum of all routed experts,
// into the last shard of the layer.
inline constexpr const char* kRoutedSumPort = "routed_sum";
// What a router hands to that of the next layer, and that one's input.
inline constexpr const char* kRouterState = "router_state";
inline constexpr const char* kEarlierRouterState = "earlier_router_state";

inline constexpr const char* kLogitsPort = "logits";

}  // namespace moec
