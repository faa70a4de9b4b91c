// Plans a model: its shards, their ports, and the schedule (ir/model/plan.h).
//
//   L00.attn     attn/L00      x, rope_cos, rope_sin, attn_mask → hidden
//     cache append: + k_state, v_state (the cache before the step) → + k_new, v_new (new rows)
//     cache blend:  + kv_write_mask; k_state and v_state are states of the device
//     no cache:     no additional ports (a model that processes a text as a whole)
//   L00.moe      moe/L00       hidden → moe_out
//   L00.mlp      mlp/L00       hidden → moe_out                      (a dense layer)
//   L00.router   router/L00    hidden → routing_weights              (host routing)
//   L00.shared   moe/L00.shared   acc, hidden → moe_out = acc + the shared expert (if it has
//                              separate shards)
//   L00.moe.g0   moe/L00.g0    acc, hidden, routing_weights → moe_out = acc + the weighted sum of
//                              the group's experts
//   L00.mlp.s0   mlp/L00.s0    acc, hidden → moe_out = acc + a slice of the MLP; likewise
//                              L00.shared.s0 and L00.moe.g0.s0 are slices
//   L02.layers   layers/L02    x, rope_cos, rope_sin, attn_mask, k_state_L02, v_state_L02,
//                              k_state_L03, … → moe_out of the last layer, k_new_L02, …
//                              (layers_per_shard: whole layers from L02 on,
//                              models/shards/layer_ports.h)
//   lm_head.0    lm_head/00    hidden → logits of its slice of the vocabulary, or of the labels
//
// Some models normalize the parts before adding them to the residual stream
// (models/shards/feed_forward_sum.h). Then the first part of a sum has no acc, and the experts run
// before the shared expert. The last shard of the shared expert reads the experts' sum and ends the
// layer:
//   L00.shared   moe/L00.shared   acc, routed_sum, hidden → moe_out
//
// The acc of a layer's first part is the residual stream. A shared expert without separate shards
// is part of the first group, which then cannot be skipped. If experts are cut into groups, the
// router is a separate shard. In every routing form its weights are exact zeros for experts that
// are not chosen.
#pragma once

#include "ir/model/plan.h"

namespace moec {

// Errors: model.* (models/shards/check_model.h), plan.options, plan.context, plan.missing_tensor
// (with the role), plan.tensor_shape.
Result<Plan> plan_model(ModelConfig model, WeightTable weights, BuildOptions options);

}  // namespace moec
