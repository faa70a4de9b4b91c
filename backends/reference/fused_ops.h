// Groups of ops that a run with kernels computes in one step: a step of one token has thousands of
// small ops, and each of them costs more than its arithmetic.
#pragma once

#include <span>
#include <vector>

#include "backends/reference/gates.h"
#include "backends/reference/products.h"
#include "backends/reference/reference.h"
#include "ir/graph/shard.h"

namespace moec {

// The results equal those of the single ops bit for bit.
//   norm      operands x and, optionally, w: x / sqrt(mean of x² + eps) · w along contiguous
//             elements, as rms_normalise() (ir/graph/rms.h) lowers it. w has one factor per
//             element.
//   rotation  operands x, cos, sin: (a, b) -> (a cos - b sin, b cos + a sin), a and b the halves of
//             the last axis of x [.., T, 2h]; cos and sin have T * h elements
//   gate      operands g and u of the same sizes: g · sigmoid(g) · u
//   guard     operands x and r, one number: x · r, but zeros if r is 0
//   rank      operands a, b, c: the sum of a = b ? c : [a > b] along an axis; c has only zeros and
//             ones. With rivals a, it is the rank of each expert b (passes/choose_top.h).
//   sum       operands of the same sizes, added in order; some of them are results of gated parts,
//             of which only the selected elements are computed and added. A zero may lose its sign.
enum class FusedKind : uint8_t { norm, rotation, gate, guard, rank, sum };

struct FusedOp {
  FusedKind kind = FusedKind::norm;
  std::vector<ValueId> operands;
  std::vector<OpId> ops;  // ascending; the last one has the result
  float eps = 0;          // of a norm
  int64_t size = 0;       // of a norm: the elements of a mean; of a rank: the terms of a sum
  int64_t axis = 0;       // of the sum of a rank
  // Of a sum: for each operand, the gate of which it adds the selected elements, or Gates::kNone.
  // plan_runs() sets them.
  std::vector<uint32_t> gates;
};

// Returns disjoint groups without ops of `excluded`, in the order of their last ops. No other op
// reads an inner value of a group, and none is an output. The ops of a group belong to one part of
// a gate, or to none.
std::vector<FusedOp> find_fused(const Shard& shard, const Gates& gates,
                                const IdMap<OpId, uint8_t>& excluded);

// Not for sums, which depend on the gates of a run.
Tensor eval(const FusedOp& op, std::span<const Tensor* const> operands, const Type& type,
            const Products& kernels);

}  // namespace moec
