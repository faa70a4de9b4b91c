// Compile-time helpers that make emitters cover every op: a new op, or a new function of an op,
// does not compile until each emitter handles it. An emitter has one overload per op of its format,
// and one for all other ops, stated by LoweredOp, OneOf and InGroup (ir/graph/ops.h). Name tables
// use name_table (ir/base/enum_table.h).
#pragma once

#include "ir/base/enum_table.h"
#include "ir/graph/ops.h"

namespace moec {

// Ops that passes replace before emission; no format supports them.
template <class OpT>
concept LoweredOp = (op_traits<OpT>.last_form < Form::placed);

}  // namespace moec
