#include <map>
#include <string>

#include "ir/graph/attention_ports.h"
#include "ir/graph/port_names.h"
#include "passes/attention_heads.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

// Head sizes that the engine's op accepts without rotation: multiples of 8.
constexpr int64_t kHeadStep = 8;
constexpr int64_t kOpenTokenAxis = 1;  // of heads [1, T, heads, head_dim]

// Attention whose values before and after the scores become ports.
class OpenAttention {
 public:
  OpenAttention(const Shard& shard, const Op& op)
      : shard_(shard),
        op_(std::get<Attention>(op.data)),
        old_(attention_operands(op_, op.operands)) {}

  // True if the engine's op computes it. A mask that the shard computes selects single keys, which
  // the op does only with a term for each score.
  bool fits() const {
    if (op_.cache != CacheForm::append || op_.head_dim % kHeadStep != 0) return false;
    if (has_factors_of_heads(old_.q_norm) || has_factors_of_heads(old_.k_norm)) return false;
    const Type& q = shard_.type(old_.q);
    const bool equal_sizes = channels_of(shard_.type(old_.v)) == op_.kv_heads * op_.head_dim;
    return equal_sizes && q.layout == Layout::rows && q.dtype != DType::bf16 &&
           is_input(old_.mask) && is_input(old_.v_cache) && is_input(old_.k_cache) &&
           shard_.values[old_.k_cache].name.starts_with(kKeyState);
  }

  void declare(Builder& b) {
    const Type& q = shard_.type(old_.q);
    attended_ = b.input(port(kAttended), {q.dtype, {1, tokens_of(q), channels_of(q)}});
  }

  std::vector<ValueId> results(Builder& b, const AttentionValues& operands) const {
    ValueId q = heads_of(b, operands.q, op_.heads);
    {
      Builder::NameScope scope(b, "q");
      q = normed_and_rotated(b, op_, operands, {q, operands.q_norm, kOpenTokenAxis});
      q = b.mul(q, b.scalar_like(q, op_.scale), "scaled");
    }
    b.output(port(kOpenQueries), joined(b, q));
    b.output(port(kOpenMask), operands.mask);
    if (operands.sinks.valid())
      b.output(port(kOpenSinks), b.reshape(operands.sinks, {1, op_.heads, 1, 1}));
    ValueId k = heads_of(b, operands.k, op_.kv_heads);
    {
      Builder::NameScope scope(b, "k");
      k = normed_and_rotated(b, op_, operands, {k, operands.k_norm, kOpenTokenAxis});
    }
    ValueId v = heads_of(b, operands.v, op_.kv_heads);
    if (facts_of(op_.qk_norm).of_values) {
      Builder::NameScope scope(b, "v");
      v = head_rms(b, v, op_.eps);
    }
    const Type& rows = b.type(operands.q);
    return {b.reshape(attended_, rows.dims, rows.layout), joined(b, k), joined(b, v)};
  }

 private:
  // Factors of several heads, [heads, 1], would be another view of their weight than in shards
  // whose attention is not open, so their data would be stored twice.
  bool has_factors_of_heads(ValueId norm) const {
    return norm.valid() && shard_.type(norm).dims.size() == 2 && shard_.type(norm).dims[0] > 1;
  }

  bool is_input(ValueId value) const { return !shard_.values[value].producer.valid(); }

  // The name of a port: the label follows it as it follows that of the cache.
  std::string port(const std::string& name) const {
    return name + shard_.values[old_.k_cache].name.substr(std::string_view(kKeyState).size());
  }

  ValueId heads_of(Builder& b, ValueId rows, int64_t heads) const {
    return b.reshape(rows, {1, tokens_of(b.type(rows)), heads, op_.head_dim});
  }

  static ValueId joined(Builder& b, ValueId heads) {
    const Dims dims = b.type(heads).dims;
    return b.reshape(heads, {1, dims[kOpenTokenAxis], dims[2] * dims[3]});
  }

  const Shard& shard_;
  const Attention& op_;
  const AttentionValues old_;
  ValueId attended_;
};

}  // namespace

Result<Shard> open_attention(const Shard& shard, PassContext&) {
  Rewriter rewriter(shard);
  Builder& b = rewriter.build();
  std::map<uint32_t, OpenAttention> open;  // by index of the op
  for (OpId id : op_ids(shard)) {
    if (!std::holds_alternative<Attention>(shard.ops[id].data)) continue;
    OpenAttention attention(shard, shard.ops[id]);
    if (!attention.fits()) continue;
    // Inputs precede all ops.
    attention.declare(b);
    open.emplace(id.index, attention);
  }
  for (OpId id : op_ids(shard)) {
    const auto found = open.find(id.index);
    if (found == open.end()) {
      rewriter.copy(id);
      continue;
    }
    const Op& op = shard.ops[id];
    std::vector<ValueId> results;
    {
      Builder::NameScope names(b, outer_scope(rewriter, id));
      results = found->second.results(
          b, attention_operands(std::get<Attention>(op.data), rewriter(op.operands)));
    }
    rewriter.replace(id, std::move(results));
  }
  return rewriter.finish();
}

}  // namespace moec
