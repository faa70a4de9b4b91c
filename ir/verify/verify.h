// The verifier. It guarantees, for a shard:
//   shard.s1  value and op ids are in range, and definitions precede uses
//   shard.s2  value ids follow the order of definition, and producers and results agree
//   shard.s3  names are unique and well-formed, inputs are named, output and state names are unique
//   shard.s4  each type is well-formed: at most 5 positive sizes that fit its layout, at most 2^48
//             elements; on such types each op satisfies its numbered constraints (ir/OPS.md),
//             whose violations have the constraints' ids: conv.c3
//   shard.s5  stored result types equal those that infer() returns
//   shard.s6  each op is legal in the shard's form
//   shard.s7  each declared state is written at most once, and read only before it is written
// and for a plan (verify_plan):
//   plan.p1   each step names a declared shard, each shard is run, and each port of a step's shard
//             is connected exactly once
//   plan.p2   each edge is produced once, before it is consumed, and both ends have one type
//   plan.p3   expert ranges tile each MoE layer and slices tile each split part: no gap, no overlap
//   plan.p4   each weight of the checkpoint is used by a shard or table, or listed as ignored
// All findings are collected. Types are checked only if s1 and s2 hold, because type checks
// dereference ids.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec {

// Place::op of a finding is a label as defined in ir/text/text.h.
Diagnostics verify(const Shard& shard);

}  // namespace moec
