// The gate of attention's output (Projections::gate_in_q, OutputGate).
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

// The queries of a role q that also contains the gates: heads · head_dim channels. `normed` is the
// layer's input after its norm.
ValueId queries_beside_gates(ShardScope& scope, ValueId normed);

// `attended` times the gate; unchanged if the model has no gate.
ValueId gated_attention(ShardScope& scope, ValueId normed, ValueId attended);

}  // namespace moec
