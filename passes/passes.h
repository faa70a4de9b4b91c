// The passes: one function and one file each. Most comments show the ops before and after the pass;
// T is the number of tokens. pipeline.cc has the table of passes and their order.
#pragma once

#include "passes/pass.h"

namespace moec {

// ---- model → model: composites become general ops ----------------------------------------------

// For targets whose sigmoid loses relative accuracy for negative inputs
// (TargetEngine::expand_sigmoid), in f32:
//   %y = sigmoid %x  ──▶  %y = reciprocal (exp (neg %x) + 1)
// Mixers need this: they normalise the result of a silu, which turns a relative error of 1e-2 in
// values of 1e-4 into an error of 1e-2. Sigmoids of routers and MLPs are still inside composites at
// this point and keep the op, because their small values are added to larger ones.
Result<Shard> expand_sigmoid(const Shard& shard, PassContext& context);

// Lowers routers to tensor math, in the form PassOptions::routing. The form host is lowered as
// rank, because the builder has already placed the router in a separate shard; the form op as topk,
// because an engine with an op for experts also has one for the top-k.
//
//   %routing = router %logits {score = softmax, top_k = 2, renorm = sum, …}
//   ──▶ scores = softmax logits; mask = (the top_k largest of scores + bias); w = scores · mask;
//       routing = w / reduce_sum w
//
// Exact for every form except full_softmax, which weights all experts and leaves the warning
// "routing.inexact". The exact forms require that scores + bias lie within ±max_selection_score().
// For softmax_selected, sigmoid_selected and sparsemixer, the scores in this bound are the logits;
// for top2_sum, sums of two scores. The element type must represent every integer up to the number
// of experts exactly (error "routing.too_many_experts").
Result<Shard> lower_router(const Shard& shard, PassContext& context);

// Limits each expert to a share of the tokens of a step: factor · T · k / E, rounded up, with the
// factor PassOptions::capacity. The expert drops later tokens: their routing weights for the
// expert become 0 (GShard, arXiv 2006.16668; Switch, arXiv 2101.03961). The other weights of a
// dropped token do not change.
//
//   %w = router %logits {top_k = k, …}
//   ──▶ uncapped_weights = router %logits {top_k = k, …}
//       w = uncapped_weights · [(number of tokens up to this one with weight > 0) <= share]
//
// E includes null slots. Nothing changes if an expert has room for all T tokens, for example if T
// is 1; otherwise the pass leaves the warning "routing.capacity". Error capacity.tokens: T exceeds
// kMaxCapacityTokens, or the integers that the element type represents exactly.
// kMaxCapacityTokens bounds the triangular [T, T] matrix that counts tokens.
Result<Shard> limit_capacity(const Shard& shard, PassContext& context);
inline constexpr int64_t kMaxCapacityTokens = 1024;
// Returns the maximum number of tokens that an expert processes, from 1 to `tokens`.
int64_t expert_capacity(double factor, int64_t tokens, int64_t top_k, int64_t experts);

// Restricts each router to the slots in PassOptions::kept_experts; an empty entry allows all slots.
// Runs after lower_router, whose value names identify the selection scores
// (ir/analysis/router_choice.h).
//
//   mask = (the top_k largest of scores)
//   ──▶ mask = (the top_k largest of min(scores, ceiling)), with low ceilings for other slots
//
// Routing weights are computed from scores without the ceiling, except with sparsemixer, which
// ignores experts that cannot be chosen. A shard without routers does not change. Errors:
// mask.inexact (full_softmax does not choose experts), and those of find_choices().
Result<Shard> mask_experts(const Shard& shard, PassContext& context);

// Returns half the largest finite number: 1.7e38 in f32, 32752 in f16. The score of a knocked-out
// candidate is the negative of this number.
double max_selection_score(DType dtype);

// Lowers attention to matmuls and a softmax. With AttentionForm::per_head there is one pair of
// matmuls per head; otherwise, one pair for all heads. Query heads that share a key head lie along
// the row axis, so that keys and values are never repeated.
//
//   %out = attention %q, %k, %v, %rope_cos, %rope_sin, %mask {heads = H, kv_heads = K, …}
//   ──▶ q [1,H,T,h] normed, rotated, scaled; k [1,K,T,h] normed, rotated;
//       scores = q [1,K,H/K·T,h] · kᵀ [1,K,h,S] + mask; probs = softmax scores; out = probs · v
//
// The results k and v are the new rows (append) or cache · (1 − Σ write_mask) + write_mask · rows
// (blend).
Result<Shard> lower_attention(const Shard& shard, PassContext& context);

// Moves the core of attention out of the shard, for engines with an op for it that has no
// counterpart in the IR. What precedes and follows the core becomes ports
// (ir/graph/attention_ports.h):
//
//   %out, %k, %v = attention %q, %k, %v, %rope_cos, %rope_sin, %mask, … {heads = H, …}
//   ──▶ open_queries = q [1,T,H·h] normed, rotated, scaled; open_mask = mask; out = open_attended;
//       k and v [1,T,K·h], k normed and rotated
//
// Other attention stays as it is. The op requires the cache form append, the layout rows, f32 or
// f16, and a mask that is an input. Keys and values have one head size, a multiple of 8, and norms
// have no factors of heads.
Result<Shard> open_attention(const Shard& shard, PassContext& context);

// Replaces experts by a moe op, for engines with such an op, which computes only the experts that
// tokens chose. All experts of a soft_moe share two weights, whose views interleave the rows of
// gate and up.
//
//   %y = soft_moe %x, %routing, gate, up, down, …
//   ──▶ y = moe x, routing[first_expert : + experts], gate_up [E,2f,d], down [E,d,f] {top_k}
//
// top_k is that of the shard's router; without a router, the number of experts. A soft_moe that the
// op cannot express stays, with the note experts.not_fused. The op lacks weight_on input,
// activations other than silu and clamped_swiglu, bf16, and f16 without codes. All weights must
// have one form: float, int8, int4 or int8 in blocks, or copied codes without zeros. int8 in blocks
// leaves the warning experts.inexact.
Result<Shard> fuse_experts(const Shard& shard, PassContext& context);

// Computes each expert separately; PassOptions::target.sum selects the form of the sum.
//
//   %moe = soft_moe %x, %routing, gate, up, down, …
//   ──▶ for each expert e: gate = linear x; up = linear x; h = silu(gate) · up;
//       out_e = linear (h · routing_e)
//       moe = out_0 + out_1 + …
//
// The routing weight is applied before `down`, where it prevents overflow in f16; `down` is linear,
// so the value is the same. With weight_on input, the weight is applied to gate and up: h =
// silu(gate · routing_e) · (up · routing_e). A select guards the products, because 0 · inf is NaN.
Result<Shard> unroll_experts(const Shard& shard, PassContext& context);

// Computes all experts at once. The weights of each role are concatenated; those of `down` along
// the inputs, so that the contraction sums over experts. A bank is split if experts · f exceeds
// PassOptions::bank_channel_limit or the target's channel limit.
//
//   %moe = soft_moe %x, %routing, gate, up, down, …
//   ──▶ gate = linear x, concat(gates) [E·f,d]; up likewise; h = silu(gate) · up;
//       moe = linear (h [E,f] · routing [E,1]), concat(downs) [d,E·f]
Result<Shard> bank_experts(const Shard& shard, PassContext& context);

// %y = rms_norm %x, %w {eps}  ──▶  y = x · reciprocal(sqrt(reduce_mean(x · x) + eps)) · w
//
// In f16, x and sqrt(eps) are first divided by the larger of sqrt(eps) and the peak of x. Otherwise
// x · x would overflow for |x| >= 256, and eps = 1e-8 would underflow. If eps is 0, a token of
// zeros yields zeros, because the argument of sqrt is never 0.
Result<Shard> lower_rms_norm(const Shard& shard, PassContext& context);

// ---- model → lowered ---------------------------------------------------------------------------

// %y = gated_mlp %x, %gate, %up, %down, %shared_gate
// ──▶ y = linear(silu(linear x, gate) · (linear x, up)), down; y · sigmoid(linear x, shared_gate)
Result<Shard> lower_gated_mlp(const Shard& shard, PassContext& context);

// ---- lowered → static --------------------------------------------------------------------------

// %y = linear %x, %w, %b  ──▶  y = conv x, (reshape w [N,C,1,1]), b
// An operand in layout rows is converted to channels, and the result is converted back.
Result<Shard> linear_to_conv(const Shard& shard, PassContext& context);

// %y = linear %x, %w, %b  ──▶  y = matmul x, (transpose w [C,N]); y + b
// An operand in layout channels is converted to rows, and the result is converted back.
Result<Shard> linear_to_matmul(const Shard& shard, PassContext& context);

// ---- static → static ---------------------------------------------------------------------------

// For targets that cannot convert types: a bool becomes a number by a select.
//   %y = cast %b {dtype = f16}  ──▶  y = select b, 1, 0
// Casts between number types do not change.
Result<Shard> cast_to_select(const Shard& shard, PassContext& context);

// For targets that fuse a projection with its activation and thereby lose accuracy. The maximum
// changes no result: for smaller values, sigmoid is 0 and tanh is -1 in every element type.
//   %y = sigmoid (conv %x, %w)  ──▶  %y = sigmoid (max (conv %x, %w), -60000)
Result<Shard> guard_activations(const Shard& shard, PassContext& context);

// For targets that miscompute narrow slices of one token: a slice from 0 of at most
// Target::limits.narrow_slice values becomes the first of equal blocks.
//   %y = slice %x[1,H,1,D] {axis = 3, size = n}  ──▶  slice (reshape %x, [1,H,D/n,n]) {axis = 2}
Result<Shard> slice_in_blocks(const Shard& shard, PassContext& context);

// For targets that miscompute exp of very negative values: clamps the argument to at least
// -Target::limits.exp_below. A limit of 87 or more changes no result in f16, and changes f32
// results by at most 2e-38.
//   %y = exp %x  ──▶  %y = exp (max %x, -87)
Result<Shard> bound_exponents(const Shard& shard, PassContext& context);

// For targets without reciprocals: a product with a reciprocal becomes a division.
//   %y = mul %x, (reciprocal %r)  ──▶  %y = div %x, %r
// A reciprocal with other users is kept.
Result<Shard> merge_reciprocals(const Shard& shard, PassContext& context);

// Splits values with more channels than Target::limits.channels into parts of nearly equal size. A
// conv becomes one sum per part of its outputs, with one term, a conv, per part of its inputs.
// Slices of its weight later become view steps (fold_weight_views). Elementwise ops act on each
// part; slices of channels read from the parts.
//   %h = conv %x, %w1; %y = conv (sigmoid %h), %w2
//   ──▶  h.part0 = conv x, w1[0:n]; h.part1 = conv x, w1[n:]
//        y = conv (sigmoid h.part0), w2[:, 0:n] + conv (sigmoid h.part1), w2[:, n:]
// Error "limit.unsplittable": a wide value is needed as a whole, because it is an input, an output,
// or an operand or result of another op.
Result<Shard> limit_channels(const Shard& shard, PassContext& context);

// A concat of more parts than Target::limits.fan_in becomes a tree of concats.
Result<Shard> limit_fan_in(const Shard& shard, PassContext& context);

// Changes nothing. Error "limit.unsplittable": one of the last two axes of an input or result is
// longer than Target::limits.extent. These axes are tokens or cached rows, so the shard's ports
// determine their sizes and no pass can split them.
Result<Shard> limit_extents(const Shard& shard, PassContext& context);

// Moves reshapes, transposes, slices, casts and concats of weights into the weights' views.
//   %w = weight @a; %t = transpose %w {perm = [1,0]}  ──▶  %w = weight @a | permute(1,0)
Result<Shard> fold_weight_views(const Shard& shard, PassContext& context);

// Evaluates ops on constants, for results of at most kMaxFoldedElements elements, and removes
// identities: x + 0, x · 1, and casts, reshapes, transposes and slices that change nothing. Merges
// a reshape of a reshape and a transpose of a transpose. A transpose that only moves axes of size 1
// becomes a reshape.
Result<Shard> fold_constants(const Shard& shard, PassContext& context);

inline constexpr int64_t kMaxFoldedElements = 4096;

// Common subexpression elimination: keeps the first of several ops with equal attributes and
// operands.
Result<Shard> eliminate_common(const Shard& shard, PassContext& context);

// Moves each state_write directly after the producer of its value and all reads of its state. A
// device compiler refused to plan writes far from their producers (CoreML-LLM).
Result<Shard> hoist_state_writes(const Shard& shard, PassContext& context);

// Removes ops that no output and no state depends on. Keeps all inputs, because they are the
// shard's interface.
Result<Shard> eliminate_dead(const Shard& shard, PassContext& context);

// Encodes the matrices of projections in the forms of PassOptions::weights. A matmul reads its
// matrix [K, N] through a transpose of the encoded [N, K], because codes and scales are stored per
// row. If the target's engine has matrix_rows, float matrices of matmuls are stored likewise.
//   %w = weight @a : [N,K,1,1]; %y = conv %x, %w
//   ──▶  %w = weight @a as affine(8; 1, K, 1, 1); y = conv %x, %w
//   %w = weight @a | permute(1,0) : [K,N]; %y = matmul %x, %w
//   ──▶  %w = weight @a as affine(8; 1, K) : [N,K]; %t = transpose %w {perm = [1,0]}
//        y = matmul %x, %t
// Weights with other uses stay plain: weights of grouped convolutions, of larger kernels, and of
// matmuls with more than one matrix. Errors: those of encoding_of(); weights.mixed (a bank joins
// tensors of different forms); weights.expert (int8:expert for a bank whose parts are fractions of
// experts).
Result<Shard> encode_weights(const Shard& shard, PassContext& context);

// If the target has splits_zeros: computes the zeros of copied 4-bit codes in products of their
// own, because onnxruntime has no kernel for codes with float zeros (backends/targets/README.md).
// The codes keep their bytes.
//   %w = weight @q as affine(4; 1, B) with zeros z; y = matmul %x, transpose %w : [T,N]
//   ──▶  %w without zeros; %o = weight (8 − z) × scale : [K/B,N]; %s = sums of B values of %x
//        y = matmul(%x, transpose %w) + matmul(%s, %o)
Result<Shard> split_zeros(const Shard& shard, PassContext& context);

// If the target's coded_matmul_rank is 3: reshapes the operands of matmuls with block-quantized
// weights to three axes. Qualcomm's compiler accepts MatMulNBits only with such operands
// (onnxruntime-qnn 2.7.0).
//   %t = transpose %w; y = matmul %x, %t : [T,N]
//   ──▶  %a = reshape %x : [1,T,K]; %b = reshape %t : [1,K,N]; %c = matmul %a, %b; y = reshape %c
Result<Shard> batch_coded_matmuls(const Shard& shard, PassContext& context);

// ---- static → placed ---------------------------------------------------------------------------

// Checks each op against the target's rules and changes only the shard's form. A broken rule with
// severity error yields the error "target.RULE"; a broken rule of lower severity leaves the
// diagnostic "target.RULE" with that severity. Error "place.state": the shard has a state but the
// target has none.
Result<Shard> place(const Shard& shard, PassContext& context);

}  // namespace moec
