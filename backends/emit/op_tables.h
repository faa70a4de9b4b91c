// Compile-time helpers of emitters, which answer for every op: a new op or a new function of an op
// does not compile until each emitter has an answer for it. An emitter writes one overload for each
// op that its format has, and one more for the ops, named by LoweredOp and OneOf (ir/graph/ops.h),
// that it does not have. Tables of names are made with name_table (ir/base/enum_table.h).
#pragma once

#include "ir/base/enum_table.h"
#include "ir/graph/ops.h"

namespace moec {

// Ops that passes have replaced before a shard is emitted: no format has them.
template <class OpT>
concept LoweredOp = OneOf<OpT, Attention, GatedMlp, RmsNorm, Router, SoftMoe, Linear>;

}  // namespace moec
