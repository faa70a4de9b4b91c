// The passes, one function and one file each. Each comment shows the ops before and after the pass;
// T is the number of tokens. pipeline.cc has the table of passes and their order.
#pragma once

#include "passes/pass.h"

namespace moec {

// ---- model → model: composites become general ops ----------------------------------------------

// For targets whose own sigmoid loses relative accuracy below 0 (Target::expand_sigmoid), in f32:
//   %y = sigmoid %x  ──▶  %y = reciprocal (exp (neg %x) + 1)
// Mixers need it: they divide what a silu gives by its length, so that an error of 1e-2 in values
// of 1e-4 becomes one of 1e-2 in the result. Sigmoids of routers and MLPs are still composites here
// and keep the op: their small values are added to larger ones.
Result<Shard> expand_sigmoid(const Shard& shard, PassContext& context);

// Routing weights as tensor math, in the form PassOptions::routing (host is lowered as rank: where
// the router runs is decided when shards are built).
//
//   %routing = router %logits {score = softmax, top_k = 2, renorm = sum, …}
//   ──▶ scores = softmax logits; mask = (the top_k largest of scores + bias); w = scores · mask;
//       routing = w / reduce_sum w
//
// Exact for every form but full_softmax, which keeps all experts and leaves the note
// "routing.inexact". Limits of the exact forms: scores + bias (the logits, for softmax_selected,
// sigmoid_selected and sparsemixer; the sums of two, for top2_sum) lie within
// ±max_selection_score(), and there are no more experts than the element type counts exactly
// ("routing.too_many_experts").
Result<Shard> lower_router(const Shard& shard, PassContext& context);

// Experts take no more than their share of the tokens of a step, factor · T · k / E rounded up,
// with the factor PassOptions::capacity: those behind are dropped, by a routing weight of 0, in the
// order of the tokens (GShard, arXiv 2006.16668; Switch, arXiv 2101.03961). The other weights of a
// dropped token stay as they are.
//
//   %w = router %logits {top_k = k, …}
//   ──▶ uncapped_weights = router %logits {top_k = k, …}
//       w = uncapped_weights · [(how many tokens up to this one have a weight above 0) <= share]
//
// E counts null slots. A step whose tokens all have room, as one of a single token, stays as it is;
// others leave the warning "routing.capacity". Error capacity.tokens: more tokens than the element
// type counts, or than kMostCapacityTokens: the count is a product with a triangular matrix.
Result<Shard> limit_capacity(const Shard& shard, PassContext& context);
inline constexpr int64_t kMostCapacityTokens = 1024;
// An expert's share of the tokens, from 1 to all of them.
int64_t expert_capacity(double factor, int64_t tokens, int64_t top_k, int64_t experts);

// Keeps experts from being chosen: by router of the shard, only the slots of
// PassOptions::kept_experts can be, or all where there are none. Follows lower_router, by whose
// names it knows what experts are chosen by (ir/analysis/router_choice.h).
//
//   mask = (the top_k largest of scores)
//   ──▶ mask = (the top_k largest of min(scores, ceiling)), which is low for the others
//
// The weights of the chosen experts are those of scores without the ceiling, but with sparsemixer,
// where the others do not exist. A shard without routers stays as it is. Errors: mask.inexact
// (full_softmax chooses no experts), those of find_choices().
Result<Shard> mask_experts(const Shard& shard, PassContext& context);

// Half the largest finite number: 1.7e38 in f32, 32752 in f16. What is knocked out of a choice gets
// the negative of it.
double max_selection_score(DType dtype);

// Attention as matmuls and a softmax: with AttentionForm::per_head one pair of matmuls a head, else
// one for all heads, where the query heads that share a key head lie along the row axis (keys and
// values are never repeated).
//
//   %out = attention %q, %k, %v, %rope_cos, %rope_sin, %mask {heads = H, kv_heads = K, …}
//   ──▶ q [1,H,T,h] normed, rotated, scaled; k [1,K,T,h] normed, rotated;
//       scores = q [1,K,H/K·T,h] · kᵀ [1,K,h,S] + mask; probs = softmax scores; out = probs · v
//
// Results k and v are the new rows (append) or cache · (1 − Σ write_mask) + write_mask · rows
// (blend).
Result<Shard> lower_attention(const Shard& shard, PassContext& context);

// Each expert on its own; PassOptions::target.sum selects how their outputs are added.
//
//   %moe = soft_moe %x, %routing, gate, up, down, …
//   ──▶ for each expert e: gate = linear x; up = linear x; h = silu(gate) · up;
//       out_e = linear (h · routing_e)
//       moe = out_0 + out_1 + …
//
// The routing weight is applied before `down` (linear, so the same value), where it keeps f16 in
// range; with weight_on input to gate and up, h = silu(gate · routing_e) · (up · routing_e). A
// select guards the products, because 0 · inf is NaN.
Result<Shard> unroll_experts(const Shard& shard, PassContext& context);

// All experts at once: the weights of one role joined, `down` along its inputs, so that its
// contraction sums over experts. Split where experts · f passes PassOptions::bank_channel_limit, or
// the channels that the target takes if these are fewer.
//
//   %moe = soft_moe %x, %routing, gate, up, down, …
//   ──▶ gate = linear x, concat(gates) [E·f,d]; up likewise; h = silu(gate) · up;
//       moe = linear (h [E,f] · routing [E,1]), concat(downs) [d,E·f]
Result<Shard> bank_experts(const Shard& shard, PassContext& context);

// %y = rms_norm %x, %w {eps}  ──▶  y = x · reciprocal(sqrt(reduce_mean(x · x) + eps)) · w
// In f16 x and sqrt(eps) are first divided by the largest magnitude in x, or sqrt(eps) where that
// is larger: x · x would overflow from |x| = 256 on, and eps = 1e-8 would vanish. Where eps is 0, a
// token of zeros gives zeros: sqrt never sees a 0.
Result<Shard> lower_rms_norm(const Shard& shard, PassContext& context);

// ---- model → lowered ---------------------------------------------------------------------------

// %y = gated_mlp %x, %gate, %up, %down, %shared_gate
// ──▶ y = linear(silu(linear x, gate) · (linear x, up)), down; y · sigmoid(linear x, shared_gate)
Result<Shard> lower_gated_mlp(const Shard& shard, PassContext& context);

// ---- lowered → static --------------------------------------------------------------------------

// %y = linear %x, %w, %b  ──▶  y = conv x, (reshape w [N,C,1,1]), b
// An operand in rows layout is turned to channels and the result back.
Result<Shard> linear_to_conv(const Shard& shard, PassContext& context);

// %y = linear %x, %w, %b  ──▶  y = matmul x, (transpose w [C,N]); y + b
// An operand in channels layout is turned to rows and the result back.
Result<Shard> linear_to_matmul(const Shard& shard, PassContext& context);

// ---- static → static ---------------------------------------------------------------------------

// For targets that cannot convert types: a bool becomes a number by a select.
//   %y = cast %b {dtype = f16}  ──▶  y = select b, 1, 0
// Casts between number types stay.
Result<Shard> cast_to_select(const Shard& shard, PassContext& context);

// For targets that fuse a projection with its activation and compute both less exactly. The maximum
// changes no result: what is below has the sigmoid 0 and the tangent -1 in every element type.
//   %y = sigmoid (conv %x, %w)  ──▶  %y = sigmoid (max (conv %x, %w), -60000)
Result<Shard> guard_activations(const Shard& shard, PassContext& context);

// For targets that compute slices of a few of one token's values wrongly: a slice of at most
// Target::limits.narrow_slice values that begins at 0 takes the first of equal blocks.
//   %y = slice %x[1,H,1,D] {axis = 3, size = n}  ──▶  slice (reshape %x, [1,H,D/n,n]) {axis = 2}
Result<Shard> slice_in_blocks(const Shard& shard, PassContext& context);

// For targets that compute powers of low exponents wrongly: exponents are kept from
// -Target::limits.exp_below on. From 87 on that changes no result in f16, and none in f32 by more
// than 2e-38.
//   %y = exp %x  ──▶  %y = exp (max %x, -87)
Result<Shard> bound_exponents(const Shard& shard, PassContext& context);

// For targets without reciprocals on their unit: a product with one is a division.
//   %y = mul %x, (reciprocal %r)  ──▶  %y = div %x, %r
// A reciprocal that something else takes, too, stays.
Result<Shard> merge_reciprocals(const Shard& shard, PassContext& context);

// Splits values of more channels than Target::limits.channels into parts of nearly equal size. A
// conv becomes one for each part of its outputs, the sum of one for each part of its inputs; its
// weight is cut by slices, which fold_weight_views makes views. Elementwise ops act on each part,
// slices of channels take from the parts.
//   %h = conv %x, %w1; %y = conv (sigmoid %h), %w2
//   ──▶  h.part0 = conv x, w1[0:n]; h.part1 = conv x, w1[n:]
//        y = conv (sigmoid h.part0), w2[:, 0:n] + conv (sigmoid h.part1), w2[:, n:]
// Where a wide value is needed as one (an input, an output, an operand of another op), the error is
// "limit.unsplittable".
Result<Shard> limit_channels(const Shard& shard, PassContext& context);

// A concat of more parts than Target::limits.fan_in becomes a tree of concats.
Result<Shard> limit_fan_in(const Shard& shard, PassContext& context);

// Checks only: an input or result with one of its last two axes above Target::limits.extent is the
// error "limit.unsplittable". Both axes hold tokens or cached rows, so their sizes come from the
// shard's ports and no pass can split them.
Result<Shard> limit_extents(const Shard& shard, PassContext& context);

// Moves reshape, transpose, slice, cast and concat of weights into the weights' views.
//   %w = weight @a; %t = transpose %w {perm = [1,0]}  ──▶  %w = weight @a | permute(1,0)
Result<Shard> fold_weight_views(const Shard& shard, PassContext& context);

// Evaluates ops on constants (results of at most kMaxFoldedElements) and removes identities: x + 0,
// x · 1, and casts, reshapes, transposes and slices that change nothing. Merges a reshape of a
// reshape and a transpose of a transpose. A transpose that only moves axes of size 1 becomes a
// reshape.
Result<Shard> fold_constants(const Shard& shard, PassContext& context);

inline constexpr int64_t kMaxFoldedElements = 4096;

// Common subexpression elimination: of ops with equal attributes and operands only the first stays.
Result<Shard> eliminate_common(const Shard& shard, PassContext& context);

// Moves each state_write right behind the op that makes its value and the reads of its state: the
// compiler of a device refused to plan writes far from their producers (CoreML-LLM).
Result<Shard> hoist_state_writes(const Shard& shard, PassContext& context);

// Removes ops that no output and no state depends on. Inputs stay: they are the shard's interface.
Result<Shard> eliminate_dead(const Shard& shard, PassContext& context);

// Encodes the matrices of projections in the forms of PassOptions::weights. A matmul takes its
// matrix [K, N] through a transpose of the encoded [N, K]: codes and scales lie row by row.
//   %w = weight @a : [N,K,1,1]; %y = conv %x, %w
//   ──▶  %w = weight @a as affine(8; 1, K, 1, 1); y = conv %x, %w
//   %w = weight @a | permute(1,0) : [K,N]; %y = matmul %x, %w
//   ──▶  %w = weight @a as affine(8; 1, K) : [N,K]; %t = transpose %w {perm = [1,0]}
//        y = matmul %x, %t
// Weights that are used in any other way stay plain: those of convolutions in groups or with larger
// kernels, and of matmuls with more than two axes. Errors: those of encoding_of(); weights.mixed (a
// bank joins tensors of different forms); weights.expert (int8:expert for a bank whose parts hold
// parts of experts).
Result<Shard> encode_weights(const Shard& shard, PassContext& context);

// Gives matmuls whose weights have codes in blocks of a row's inputs three axes, where the target's
// coded_matmul_rank is 3: Qualcomm's compiler takes MatMulNBits of such operands only
// (onnxruntime-qnn 2.7.0).
//   %t = transpose %w; y = matmul %x, %t : [T,N]
//   ──▶  %a = reshape %x : [1,T,K]; %b = reshape %t : [1,K,N]; %c = matmul %a, %b; y = reshape %c
Result<Shard> batch_coded_matmuls(const Shard& shard, PassContext& context);

// ---- static → placed ---------------------------------------------------------------------------

// Checks each op against the target's rules; only the form changes. A broken rule of severity error
// is the error "target.RULE", one of severity warning leaves a warning "target.RULE". A state is
// the error "place.state" if the target has no state.
Result<Shard> place(const Shard& shard, PassContext& context);

}  // namespace moec
