#include "ir/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

// Collects violations while one op is examined. Each requirement names its constraint of ir/OPS.md.
class Check {
 public:
  Check(std::span<const Type> operands, const StateLookup& state_type)
      : operands(operands), state_type(state_type) {}

  template <class... Args>
  bool require(bool condition, std::string_view code, fmt::format_string<Args...> message,
               Args&&... args) {
    if (!condition)
      out.violations.push_back(
          {std::string(code), fmt::format(message, std::forward<Args>(args)...)});
    return condition;
  }

  bool count(std::string_view code, size_t least, size_t most) {
    return require(operands.size() >= least && operands.size() <= most, code,
                   "takes {} operands, got {}",
                   least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most),
                   operands.size());
  }
  bool count(std::string_view code, size_t exactly) { return count(code, exactly, exactly); }

  bool float_operands(std::string_view code) {
    bool good = true;
    for (const Type& type : operands)
      good &= require(is_float(type.dtype) && type.dtype == operands[0].dtype, code,
                      "operands must be of one float type, got {}", to_string(type));
    return good;
  }

  bool token_operand(std::string_view code, size_t index) {
    return require(operands[index].layout != Layout::plain, code,
                   "operand {} must be a token tensor (rows or channels), got {}", index,
                   to_string(operands[index]));
  }

  bool has_dims(std::string_view code, size_t index, const Dims& dims) {
    return require(operands[index].dims == dims, code, "operand {} must have sizes {}, got {}",
                   index, to_string(dims), to_string(operands[index]));
  }

  bool axis(std::string_view code, int64_t axis_value, size_t rank) {
    return require(axis_value >= 0 && axis_value < static_cast<int64_t>(rank), code,
                   "axis {} is outside rank {}", axis_value, rank);
  }

  bool same_token_shape(std::string_view code, size_t a, size_t b) {
    return require(operands[a].layout == operands[b].layout &&
                       tokens_of(operands[a]) == tokens_of(operands[b]),
                   code, "operands {} and {} must agree in layout and tokens: {} and {}", a, b,
                   to_string(operands[a]), to_string(operands[b]));
  }

  Inferred result(Type type) {
    out.results.push_back(std::move(type));
    return std::move(out);
  }
  Inferred failed() { return std::move(out); }

  std::span<const Type> operands;
  const StateLookup& state_type;
  Inferred out;
};

Type with_channels(const Type& token, int64_t channels) {
  return token_type(token.dtype, token.layout, channels, tokens_of(token));
}

// ---- Broadcasting ------------------------------------------------------------------------------

std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  if (a.size() != b.size()) return std::nullopt;
  Dims joined(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return std::nullopt;
    joined[i] = std::max(a[i], b[i]);
  }
  return joined;
}

struct Joined {
  bool good = false;
  Dims dims;
  Layout layout = Layout::plain;
};

// Operands in the layouts rows and channels differ in rank, so their sizes do not broadcast: among
// those that do there is one layout at most besides plain.
Joined join_shapes(Check& check, std::string_view code) {
  Joined joined{true, check.operands[0].dims, check.operands[0].layout};
  for (const Type& type : check.operands.subspan(1)) {
    auto dims = broadcast(joined.dims, type.dims);
    if (!check.require(dims.has_value(), code, "sizes {} and {} do not broadcast",
                       to_string(joined.dims), to_string(type.dims)))
      return {};
    joined.dims = *dims;
    if (type.layout != Layout::plain) joined.layout = type.layout;
  }
  return joined;
}

// ---- Composites --------------------------------------------------------------------------------

// Larger counts are no model's, and their products would overflow.
constexpr int64_t kMaxCount = int64_t{1} << 20;

bool is_count(int64_t value) { return value >= 1 && value <= kMaxCount; }

bool projection(Check& check, std::string_view code, size_t weight, int64_t out, int64_t in) {
  return check.has_dims(code, weight, {out, in});
}

// The operands that follow q, k, v, in the order that ir/ops.h gives.
struct AttentionOperands {
  size_t rope = 3, mask = 3, norms = 4, caches = 4, write_mask = 4, total = 4;

  explicit AttentionOperands(const Attention& op) {
    size_t next = 3;
    rope = next;
    if (op.rope != RopeStyle::none) next += 2;
    mask = next++;
    norms = next;
    if (op.qk_norm != QkNorm::none) next += 2;
    caches = next;
    if (op.cache != CacheForm::none) next += 2;
    write_mask = next;
    if (op.cache == CacheForm::blend) next += 1;
    total = next;
  }
};

bool attention_attributes(Check& check, const Attention& op) {
  bool good = check.require(
      is_count(op.heads) && is_count(op.kv_heads) && is_count(op.head_dim) &&
          op.heads % op.kv_heads == 0,
      "attention.c2",
      "heads {}, kv_heads {} and head_dim {} must be in [1, {}] and kv_heads must divide heads",
      op.heads, op.kv_heads, op.head_dim, kMaxCount);
  good &= check.require(
      op.rope == RopeStyle::none
          ? op.rope_dims == 0
          : op.rope_dims > 0 && op.rope_dims % 2 == 0 && op.rope_dims <= op.head_dim,
      "attention.c3", "rope_dims {} must be even and at most head_dim {} (0 when rope is none)",
      op.rope_dims, op.head_dim);
  good &=
      check.require(std::isfinite(op.scale) && std::isfinite(op.eps) && op.eps >= 0, "attention.c4",
                    "scale {} and eps {} must be finite, eps not negative", op.scale, op.eps);
  return good;
}

Inferred infer_op(const Attention& op, Check& check) {
  if (!attention_attributes(check, op)) return check.failed();
  const AttentionOperands at(op);
  if (!check.count("attention.c1", at.total) || !check.float_operands("attention.c5"))
    return check.failed();
  for (size_t i = 0; i < 3; ++i)
    if (!check.token_operand("attention.c6", i)) return check.failed();
  const Type& q = check.operands[0];
  const int64_t tokens = tokens_of(q);
  bool good = true;
  for (size_t i = 0; i < 3; ++i) {
    good &= check.same_token_shape("attention.c6", 0, i);
    const int64_t width = (i == 0 ? op.heads : op.kv_heads) * op.head_dim;
    good &= check.require(channels_of(check.operands[i]) == width, "attention.c7",
                          "operand {} must have {} channels, got {}", i, width,
                          to_string(check.operands[i]));
  }
  if (op.rope != RopeStyle::none)
    for (size_t i : {at.rope, at.rope + 1})
      good &= check.has_dims("attention.c8", i, {tokens, op.rope_dims / 2});
  if (op.qk_norm != QkNorm::none)
    for (size_t i : {at.norms, at.norms + 1})
      good &= check.has_dims("attention.c9", i, {op.head_dim});
  int64_t cached = 0;
  if (op.cache != CacheForm::none) {
    const Type& k_cache = check.operands[at.caches];
    if (!check.require(k_cache.rank() == 4, "attention.c10", "a cache has rank 4, got {}",
                       to_string(k_cache)))
      return check.failed();
    cached = k_cache.dims[2];
    for (size_t i : {at.caches, at.caches + 1})
      good &= check.has_dims("attention.c10", i, {1, op.kv_heads, cached, op.head_dim});
  }
  if (op.cache == CacheForm::blend)
    good &= check.has_dims("attention.c11", at.write_mask, {1, 1, cached, tokens});
  const int64_t keys = op.cache == CacheForm::blend ? cached : cached + tokens;
  good &= check.has_dims("attention.c12", at.mask, {1, 1, tokens, keys});
  if (!good) return check.failed();
  check.out.results.push_back(q);
  if (op.cache != CacheForm::none) {
    const int64_t rows = op.cache == CacheForm::blend ? cached : tokens;
    const Type cache{q.dtype, {1, op.kv_heads, rows, op.head_dim}};
    check.out.results.insert(check.out.results.end(), {cache, cache});
  }
  return std::move(check.out);
}

Inferred infer_op(const GatedMlp&, Check& check) {
  if (!check.count("gated_mlp.c1", 4, 5) || !check.float_operands("gated_mlp.c2") ||
      !check.token_operand("gated_mlp.c3", 0))
    return check.failed();
  const Type& x = check.operands[0];
  const int64_t width = channels_of(x);
  const Type& gate = check.operands[1];
  bool good = check.require(gate.rank() == 2 && gate.dims[1] == width, "gated_mlp.c4",
                            "gate must be [f, {}], got {}", width, to_string(gate));
  if (!good) return check.failed();
  good &= projection(check, "gated_mlp.c4", 2, gate.dims[0], width);
  good &= projection(check, "gated_mlp.c4", 3, width, gate.dims[0]);
  if (check.operands.size() == 5) good &= projection(check, "gated_mlp.c5", 4, 1, width);
  return good ? check.result(x) : check.failed();
}

Inferred infer_op(const RmsNorm& op, Check& check) {
  if (!check.count("rms_norm.c1", 2) || !check.float_operands("rms_norm.c2") ||
      !check.token_operand("rms_norm.c3", 0))
    return check.failed();
  const Type& x = check.operands[0];
  bool good = check.has_dims("rms_norm.c4", 1, {channels_of(x)});
  good &= check.require(std::isfinite(op.eps) && op.eps >= 0, "rms_norm.c5",
                        "eps {} must be finite and not negative", op.eps);
  return good ? check.result(x) : check.failed();
}

bool router_groups(Check& check, const Router& op, int64_t experts) {
  if (!check.require(op.groups >= 1 && experts % op.groups == 0, "router.c6",
                     "{} groups must divide {} experts", op.groups, experts))
    return false;
  const int64_t size = experts / op.groups;
  bool good = check.require(op.groups_kept >= 1 && op.groups_kept <= op.groups, "router.c7",
                            "groups_kept {} must be in [1, {}]", op.groups_kept, op.groups);
  good &= check.require(op.top_k <= op.groups_kept * size, "router.c8",
                        "top_k {} exceeds the {} experts of the kept groups", op.top_k,
                        op.groups_kept * size);
  good &= check.require(op.groups == 1 || op.group_score == GroupScore::max || size >= 2,
                        "router.c9", "top2_sum needs at least 2 experts a group");
  return good;
}

Inferred infer_op(const Router& op, Check& check) {
  if (!check.count("router.c1", 1, 2) || !check.float_operands("router.c2") ||
      !check.token_operand("router.c3", 0))
    return check.failed();
  const Type& logits = check.operands[0];
  const int64_t experts = channels_of(logits);
  bool good = check.require(op.top_k >= 1 && op.top_k <= experts, "router.c4",
                            "top_k {} must be in [1, {}]", op.top_k, experts);
  if (check.operands.size() == 2) good &= check.has_dims("router.c5", 1, {experts});
  good &= router_groups(check, op, experts);
  good &=
      check.require(std::isfinite(op.eps) && op.eps >= 0 && std::isfinite(op.scale), "router.c10",
                    "eps {} and scale {} must be finite, eps not negative", op.eps, op.scale);
  good &= check.require(
      op.score != Score::softmax_selected || (op.renorm == Renorm::none && op.groups == 1),
      "router.c11", "softmax_selected weights sum to 1 already: renorm must be none, groups 1");
  return good ? check.result(logits) : check.failed();
}

Inferred infer_op(const SoftMoe& op, Check& check) {
  if (!check.require(is_count(op.experts) && op.first_expert >= 0 && op.first_expert <= kMaxCount,
                     "soft_moe.c1", "experts {} must be in [1, {}] and first_expert {} in [0, {}]",
                     op.experts, kMaxCount, op.first_expert, kMaxCount) ||
      !check.count("soft_moe.c2", 2 + 3 * static_cast<size_t>(op.experts)) ||
      !check.float_operands("soft_moe.c3") || !check.token_operand("soft_moe.c4", 0) ||
      !check.token_operand("soft_moe.c4", 1))
    return check.failed();
  const Type& x = check.operands[0];
  const Type& routing = check.operands[1];
  bool good = check.same_token_shape("soft_moe.c4", 0, 1);
  good &= check.require(op.first_expert + op.experts <= channels_of(routing), "soft_moe.c5",
                        "experts [{}, {}) exceed the {} routing channels", op.first_expert,
                        op.first_expert + op.experts, channels_of(routing));
  const Type& first_gate = check.operands[2];
  if (!check.require(first_gate.rank() == 2, "soft_moe.c6", "gate must be [f, d], got {}",
                     to_string(first_gate)))
    return check.failed();
  const int64_t inner = first_gate.dims[0], width = channels_of(x);
  for (size_t e = 0; e < static_cast<size_t>(op.experts); ++e) {
    good &= projection(check, "soft_moe.c6", 2 + 3 * e, inner, width);
    good &= projection(check, "soft_moe.c6", 3 + 3 * e, inner, width);
    good &= projection(check, "soft_moe.c6", 4 + 3 * e, width, inner);
  }
  return good ? check.result(x) : check.failed();
}

Inferred infer_op(const Linear&, Check& check) {
  if (!check.count("linear.c1", 2, 3) || !check.float_operands("linear.c2") ||
      !check.token_operand("linear.c3", 0))
    return check.failed();
  const Type& x = check.operands[0];
  const Type& w = check.operands[1];
  if (!check.require(w.rank() == 2 && w.dims[1] == channels_of(x), "linear.c4",
                     "weight must be [out, {}], got {}", channels_of(x), to_string(w)))
    return check.failed();
  if (check.operands.size() == 3 && !check.has_dims("linear.c5", 2, {w.dims[0]}))
    return check.failed();
  return check.result(with_channels(x, w.dims[0]));
}

// ---- Sources -----------------------------------------------------------------------------------

Inferred infer_op(const Weight& op, Check& check) {
  if (!check.count("weight.c1", 0)) return check.failed();
  auto type = view_type(op.view);
  if (!check.require(type.has_value(), "weight.c2", "{}",
                     type ? std::string() : type.error().front().cause))
    return check.failed();
  return check.result(*type);
}

// A NaN has no text and equals nothing, so two equal shards could not be told.
bool holds(DType dtype, double value) {
  if (is_float(dtype)) return !std::isnan(value);
  return std::isfinite(value) && value == std::trunc(value);
}

Inferred infer_op(const Constant& op, Check& check) {
  if (!check.count("constant.c1", 0)) return check.failed();
  auto elements = checked_elements(op.type.dims);
  if (!check.require(elements && op.type.rank() <= kMaxRank, "constant.c2",
                     "sizes {} must be positive and at most {} of them", to_string(op.type.dims),
                     kMaxRank))
    return check.failed();
  const auto given = static_cast<int64_t>(op.values.size());
  if (!check.require(given == 1 || given == *elements, "constant.c3",
                     "needs 1 value or {} values, got {}", *elements, given))
    return check.failed();
  for (double value : op.values)
    if (!check.require(holds(op.type.dtype, value), "constant.c4", "{} is no value of type {}",
                       value, dtype_name(op.type.dtype)))
      return check.failed();
  return check.result(op.type);
}

// ---- Contractions ------------------------------------------------------------------------------

Inferred infer_op(const Conv& op, Check& check) {
  if (!check.count("conv.c1", 2, 3) || !check.float_operands("conv.c2")) return check.failed();
  const Type& x = check.operands[0];
  const Type& w = check.operands[1];
  if (!check.require(x.layout == Layout::channels, "conv.c3",
                     "x must be a channels tensor [1, C, T, 1], got {}", to_string(x)) ||
      !check.require(w.rank() == 4 && w.dims[3] == 1, "conv.c4",
                     "weight must be [N, C/groups, K, 1], got {}", to_string(w)))
    return check.failed();
  const int64_t channels = channels_of(x), outputs = w.dims[0];
  bool good = check.require(op.groups >= 1 && channels % op.groups == 0 && outputs % op.groups == 0,
                            "conv.c5", "groups {} must divide {} input and {} output channels",
                            op.groups, channels, outputs);
  good = good && check.require(w.dims[1] == channels / op.groups, "conv.c6",
                               "weight must have {} channels a group, got {}", channels / op.groups,
                               w.dims[1]);
  good &= check.require(w.dims[2] <= tokens_of(x), "conv.c7", "kernel {} is longer than {} tokens",
                        w.dims[2], tokens_of(x));
  if (check.operands.size() == 3) good &= check.has_dims("conv.c8", 2, {outputs});
  if (!good) return check.failed();
  return check.result(token_type(x.dtype, Layout::channels, outputs, tokens_of(x) - w.dims[2] + 1));
}

Inferred infer_op(const MatMul&, Check& check) {
  if (!check.count("matmul.c1", 2) || !check.float_operands("matmul.c2")) return check.failed();
  const Dims& a = check.operands[0].dims;
  const Dims& b = check.operands[1].dims;
  const size_t rank = a.size();
  if (!check.require(rank >= 2 && rank == b.size(), "matmul.c3",
                     "ranks must be equal and at least 2: {} and {}", to_string(a), to_string(b)))
    return check.failed();
  if (!check.require(a[rank - 1] == b[rank - 2], "matmul.c4", "inner sizes differ: {} and {}",
                     to_string(a), to_string(b)))
    return check.failed();
  auto batch = broadcast(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2));
  if (!check.require(batch.has_value(), "matmul.c5", "leading sizes do not broadcast: {} and {}",
                     to_string(a), to_string(b)))
    return check.failed();
  Type type{check.operands[0].dtype, *batch};
  type.dims.insert(type.dims.end(), {a[rank - 2], b[rank - 1]});
  if (check.operands[0].layout == Layout::rows) type.layout = Layout::rows;
  return check.result(std::move(type));
}

// ---- Elementwise -------------------------------------------------------------------------------

Inferred infer_op(const Unary&, Check& check) {
  if (!check.count("unary.c1", 1) || !check.float_operands("unary.c2")) return check.failed();
  return check.result(check.operands[0]);
}

Inferred infer_op(const Binary&, Check& check) {
  if (!check.count("binary.c1", 2) || !check.float_operands("binary.c2")) return check.failed();
  Joined joined = join_shapes(check, "binary.c3");
  if (!joined.good) return check.failed();
  return check.result({check.operands[0].dtype, joined.dims, joined.layout});
}

Inferred infer_op(const Compare&, Check& check) {
  if (!check.count("compare.c1", 2)) return check.failed();
  const DType a = check.operands[0].dtype, b = check.operands[1].dtype;
  if (!check.require(a == b && a != DType::boolean, "compare.c2",
                     "operands must be of one number type, got {} and {}", dtype_name(a),
                     dtype_name(b)))
    return check.failed();
  Joined joined = join_shapes(check, "compare.c3");
  if (!joined.good) return check.failed();
  return check.result({DType::boolean, joined.dims, joined.layout});
}

Inferred infer_op(const Select&, Check& check) {
  if (!check.count("select.c1", 3)) return check.failed();
  const Type& a = check.operands[1];
  const Type& b = check.operands[2];
  bool good = check.require(check.operands[0].dtype == DType::boolean, "select.c2",
                            "the condition must be bool, got {}", to_string(check.operands[0]));
  good &= check.require(a.dtype == b.dtype, "select.c3", "branches must be of one type: {} and {}",
                        to_string(a), to_string(b));
  Joined joined = join_shapes(check, "select.c4");
  if (!good || !joined.good) return check.failed();
  return check.result({a.dtype, joined.dims, joined.layout});
}

Inferred infer_op(const Cast& op, Check& check) {
  if (!check.count("cast.c1", 1)) return check.failed();
  Type type = check.operands[0];
  type.dtype = op.dtype;
  return check.result(std::move(type));
}

// ---- Along one axis ----------------------------------------------------------------------------

Inferred infer_op(const Reduce& op, Check& check) {
  if (!check.count("reduce.c1", 1) || !check.float_operands("reduce.c2") ||
      !check.axis("reduce.c3", op.axis, check.operands[0].rank()))
    return check.failed();
  Type type = check.operands[0];
  type.dims[op.axis] = 1;
  return check.result(std::move(type));
}

Inferred infer_op(const Softmax& op, Check& check) {
  if (!check.count("softmax.c1", 1) || !check.float_operands("softmax.c2") ||
      !check.axis("softmax.c3", op.axis, check.operands[0].rank()))
    return check.failed();
  return check.result(check.operands[0]);
}

Inferred infer_op(const TopK& op, Check& check) {
  if (!check.count("topk.c1", 1) || !check.float_operands("topk.c2") ||
      !check.axis("topk.c3", op.axis, check.operands[0].rank()))
    return check.failed();
  Type values = check.operands[0];
  if (!check.require(op.k >= 1 && op.k <= values.dims[op.axis], "topk.c4",
                     "k {} must be in [1, {}]", op.k, values.dims[op.axis]))
    return check.failed();
  values.dims[op.axis] = op.k;
  Type indices = values;
  indices.dtype = DType::i64;
  check.out.results.push_back(values);
  return check.result(std::move(indices));
}

// ---- Shape -------------------------------------------------------------------------------------

Inferred infer_op(const Slice& op, Check& check) {
  if (!check.count("slice.c1", 1) || !check.axis("slice.c2", op.axis, check.operands[0].rank()))
    return check.failed();
  Type type = check.operands[0];
  const int64_t extent = type.dims[op.axis];
  if (!check.require(op.begin >= 0 && op.size >= 1 && op.begin <= extent - op.size, "slice.c3",
                     "[{}, {} + {}) is outside extent {}", op.begin, op.begin, op.size, extent))
    return check.failed();
  type.dims[op.axis] = op.size;
  return check.result(std::move(type));
}

Inferred infer_op(const Concat& op, Check& check) {
  if (!check.count("concat.c1", 1, 1u << 20) ||
      !check.axis("concat.c2", op.axis, check.operands[0].rank()))
    return check.failed();
  Type type = check.operands[0];
  for (const Type& part : check.operands.subspan(1)) {
    bool good = check.require(
        part.dtype == type.dtype && part.layout == type.layout && part.rank() == type.rank(),
        "concat.c3", "parts must agree in type, layout and rank: {} and {}", to_string(type),
        to_string(part));
    for (size_t i = 0; good && i < part.rank(); ++i)
      good = check.require(static_cast<int64_t>(i) == op.axis || part.dims[i] == type.dims[i],
                           "concat.c4", "parts must agree off axis {}: {} and {}", op.axis,
                           to_string(type), to_string(part));
    if (!good) return check.failed();
    type.dims[op.axis] += part.dims[op.axis];
    if (!check.require(checked_elements(type.dims).has_value(), "concat.c5",
                       "{} would hold more than {} elements", to_string(type), kMaxElements))
      return check.failed();
  }
  return check.result(std::move(type));
}

// A rows type has rank 2, a channels type is [1, C, T, 1].
bool fits_layout(const Dims& dims, Layout layout) {
  if (layout == Layout::rows) return dims.size() == 2;
  if (layout == Layout::channels) return dims.size() == 4 && dims[0] == 1 && dims[3] == 1;
  return true;
}

Inferred infer_op(const Reshape& op, Check& check) {
  if (!check.count("reshape.c1", 1)) return check.failed();
  auto elements = checked_elements(op.dims);
  bool good = check.require(elements && op.dims.size() <= kMaxRank, "reshape.c2",
                            "sizes {} must be positive and at most {} of them", to_string(op.dims),
                            kMaxRank);
  good = good && check.require(*elements == check.operands[0].elements(), "reshape.c3",
                               "{} does not hold the elements of {}", to_string(op.dims),
                               to_string(check.operands[0]));
  good = good &&
         check.require(fits_layout(op.dims, op.layout), "reshape.c4", "{} does not fit layout {}",
                       to_string(op.dims), layout_name(op.layout));
  if (!good) return check.failed();
  return check.result({check.operands[0].dtype, op.dims, op.layout});
}

Inferred infer_op(const Transpose& op, Check& check) {
  if (!check.count("transpose.c1", 1)) return check.failed();
  const Type& x = check.operands[0];
  std::vector<int64_t> sorted = op.perm;
  std::sort(sorted.begin(), sorted.end());
  bool good = sorted.size() == x.rank();
  for (size_t i = 0; good && i < sorted.size(); ++i) good = sorted[i] == static_cast<int64_t>(i);
  if (!check.require(good, "transpose.c2", "{} is no permutation of {} axes", to_string(op.perm),
                     x.rank()))
    return check.failed();
  Type type{x.dtype, {}, op.layout};
  for (int64_t axis : op.perm) type.dims.push_back(x.dims[axis]);
  if (!check.require(fits_layout(type.dims, op.layout), "transpose.c3", "{} does not fit layout {}",
                     to_string(type.dims), layout_name(op.layout)))
    return check.failed();
  return check.result(std::move(type));
}

// ---- State -------------------------------------------------------------------------------------

const Type* declared_state(Check& check, std::string_view code, const std::string& name) {
  const Type* type = check.state_type(name);
  check.require(type != nullptr, code, "no state named \"{}\" is declared", name);
  return type;
}

Inferred infer_op(const StateRead& op, Check& check) {
  if (!check.count("state_read.c1", 0)) return check.failed();
  const Type* type = declared_state(check, "state_read.c2", op.state);
  return type ? check.result(*type) : check.failed();
}

Inferred infer_op(const StateWrite& op, Check& check) {
  if (!check.count("state_write.c1", 1)) return check.failed();
  const Type* type = declared_state(check, "state_write.c2", op.state);
  if (type)
    check.require(check.operands[0] == *type, "state_write.c3", "state \"{}\" holds {}, got {}",
                  op.state, to_string(*type), to_string(check.operands[0]));
  return check.failed();  // no results
}

}  // namespace

Inferred infer(const OpData& data, std::span<const Type> operands, const StateLookup& state_type) {
  Check check(operands, state_type);
  return std::visit([&](const auto& op) { return infer_op(op, check); }, data);
}

}  // namespace moec
