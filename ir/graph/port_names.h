// Names of the ports of emitted shards. Builders declare the ports, the plan's schedule binds them,
// emitters write them into files, and external runtimes rely on them. Changing a name changes the
// file format.
#pragma once

#include <string_view>

namespace moec {

// The residual stream: the input of attention, the output of attention, which is the input of the
// feed-forward part, and the output of the feed-forward part.
inline constexpr const char* kResidualPort = "x";
inline constexpr const char* kHiddenPort = "hidden";
inline constexpr const char* kMoeOutPort = "moe_out";

// Inputs of attention, per token of the step: rows of the rotation tables, and a factor for the
// queries.
inline constexpr const char* kRopeCosPort = "rope_cos";
inline constexpr const char* kRopeSinPort = "rope_sin";
inline constexpr const char* kQueryScalePort = "query_scale";
// The mask that is added to the scores; and the write mask, which is 1 where a new token is written
// to a row of the cache.
inline constexpr const char* kMaskPort = "attn_mask";
inline constexpr const char* kWriteMaskPort = "kv_write_mask";
// The cache, as states of the device or as inputs.
inline constexpr const char* kKeyState = "k_state";
inline constexpr const char* kValueState = "v_state";
// The new rows of the cache, if the runtime stores them.
inline constexpr const char* kNewKeys = "k_new";
inline constexpr const char* kNewValues = "v_new";
// Ports for the history of a convolution over tokens.
inline constexpr const char* kHistoryPort = "history";
inline constexpr const char* kNewHistory = "history_new";
// Ports of recurrent mixers: the state before and after the step; and the token mask, which is 1
// for tokens of the step and 0 for padding.
inline constexpr const char* kRecurrentState = "recurrent_state";
inline constexpr const char* kNewRecurrentState = "recurrent_state_new";
inline constexpr const char* kTokenMaskPort = "token_mask";

// True for the inputs of a shard that hold earlier tokens: a cache, a history or a recurrent state.
// In a shard of several layers, the label of the layer follows the name.
constexpr bool is_cache_input(std::string_view input) {
  return input.starts_with(kKeyState) || input.starts_with(kValueState) ||
         input.starts_with(kHistoryPort) || input.starts_with(kRecurrentState);
}

// The routing weights of all experts: from a router shard to the expert groups.
inline constexpr const char* kRoutingWeights = "routing_weights";
// Not a port: the label of the routing weights before experts drop tokens beyond their capacity.
inline constexpr const char* kUncappedWeights = "uncapped_weights";
// Input of an expert group or a width slice: the residual stream plus the outputs of the layer's
// earlier groups or slices.
inline constexpr const char* kPartialSumPort = "acc";
// Input of the layer's last shard: the sum of all routed experts. Used if norms act on the routed
// and shared outputs before they are added to the residual stream.
inline constexpr const char* kRoutedSumPort = "routed_sum";
// Ports for the state that a router forwards to the router of the next layer.
inline constexpr const char* kRouterState = "router_state";
inline constexpr const char* kEarlierRouterState = "earlier_router_state";

inline constexpr const char* kLogitsPort = "logits";

}  // namespace moec
