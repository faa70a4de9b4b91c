// Plans a model: its shards, their ports, and the schedule (ir/model/plan.h).
//
//   L00.attn     attn/L00      x, rope_cos, rope_sin, attn_mask → hidden
//     cache append: + k_state, v_state (the cache as it was) → + k_new, v_new (rows to store)
//     cache blend:  + kv_write_mask; k_state and v_state are states of the device
//     no cache:     no further ports (a model that reads a text as a whole)
//   L00.moe      moe/L00       hidden → moe_out
//   L00.mlp      mlp/L00       hidden → moe_out                      (a dense layer)
//   L00.router   router/L00    hidden → routing_weights              (host routing)
//   L00.shared   moe/L00.shared   acc, hidden → moe_out = acc + the shared expert (where it has
//                              shards of its own)
//   L00.moe.g0   moe/L00.g0    acc, hidden, routing_weights → moe_out = acc + the weighted sum of
//                              its experts
//   L00.mlp.s0   mlp/L00.s0    acc, hidden → moe_out = acc + a slice of the MLP; in the same way
//                              L00.shared.s0 and L00.moe.g0.s0 are slices of those above
//   L02.layers   layers/L02    x, rope_cos, rope_sin, attn_mask, k_state_L02, v_state_L02,
//                              k_state_L03, … → moe_out of its last layer, k_new_L02, …
//                              (layers_per_shard: whole layers from L02 on,
//                              models/shards/layer_ports.h)
//   lm_head.0    lm_head/00    hidden → logits of its slice of the vocabulary, or of the labels
//
// Where norms lie between the parts and the residual stream (models/shards/feed_forward_sum.h), a
// sum has no acc in its first part, the experts run before the shared expert, and the last shard of
// that takes their sum and ends the layer:
//   L00.shared   moe/L00.shared   acc, routed_sum, hidden → moe_out
//
// The acc of a layer's first part is the residual stream. A shared expert without shards of its own
// is part of the first group, which then cannot be skipped. Where experts are cut into groups, the
// router is a shard of its own; in every routing form its weights are exact zeros for the experts
// that it does not choose.
#pragma once

#include "ir/model/plan.h"

namespace moec {

// Errors: model.* (models/shards/check_model.h), plan.options, plan.context, plan.missing_tensor
// (with the role), plan.tensor_shape.
Result<Plan> plan_model(ModelConfig model, WeightTable weights, BuildOptions options);

}  // namespace moec
