#include <map>
#include <optional>
#include <utility>

#include "ir/base/at.h"
#include "ir/graph/rewriter.h"
#include "ir/graph/stored_codes.h"
#include "passes/passes.h"
#include "passes/turned_factor.h"

namespace moec {
namespace {

// A weight [N, K] without its zeros, and what the zeros add to each value of a block.
struct Split {
  Weight codes;        // value = code × scale
  WeightView offsets;  // f32[N, K / block]: (2^(bits − 1) − zero) × scale
  int64_t block = 0;   // values per block, along K
};

// Absent if the weight has no copied zeros, or if blocks do not divide K.
std::optional<Split> split_of(const Weight& weight, const Type& type) {
  const auto* affine = std::get_if<AffineEncoding>(&weight.encoding);
  if (!affine || !affine->copied || !affine->zero_point || type.rank() != 2) return std::nullopt;
  const int64_t block = affine->block.at(1);
  if (type.dtype != DType::f32 || affine->block.at(0) != 1 || type.dims.at(1) % block != 0)
    return std::nullopt;
  std::optional<StoredCodes> stored = stored_codes(weight.view);
  if (!stored || !stored->zeros) return std::nullopt;
  const Type blocks{DType::f32, {type.dims.at(0), type.dims.at(1) / block}};
  const auto excess = static_cast<double>(int64_t{1} << (affine->bits - 1));
  // Dequantizing the zeros gives (zero − excess) × scale.
  WeightView offsets = then(std::move(*stored->zeros),
                            DequantStep{{1, 1}, {stored->scales}, {splat_view(excess, blocks)}});
  offsets = then(std::move(offsets), ScaleStep{-1});
  stored->zeros.reset();
  stored->encoding.zero_point = false;
  AffineEncoding encoding = stored->encoding;
  return Split{{values_of(*stored), std::move(encoding)}, std::move(offsets), block};
}

class ZeroSplitter {
 public:
  explicit ZeroSplitter(const Shard& shard) : shard_(shard), rewriter_(shard) {}

  Shard run() {
    find_splits();
    for (OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (!op.results.empty() && splits_.contains(op.results[0].index))
        rewriter_.copy_as(id, splits_.at(op.results[0].index).codes, {});
      else if (const auto weight = weight_of(op))
        add_offsets(id, *weight);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  // The weight [N, K] of a matmul [T, K] · [K, N], if its zeros are split off.
  std::optional<ValueId> weight_of(const Op& op) const {
    const auto rows = turned_factor(shard_, op);
    return rows && splits_.contains(rows->index) ? rows : std::nullopt;
  }

  // Splits the weights all of whose uses are such matmuls.
  void find_splits() {
    for (const Op& op : shard_.ops)
      if (const auto* weight = std::get_if<Weight>(&op.data))
        if (auto split = split_of(*weight, shard_.type(op.results[0])))
          splits_.emplace(op.results[0].index, std::move(*split));
    for (const Op& op : shard_.ops)
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (i != 1 || !turned_factor(shard_, op)) keep_whole(op.operands[i], op.data);
    for (const Output& output : shard_.outputs) keep_whole(output.value, {});
  }

  // Keeps the zeros of a weight that `reader` or an output reads, itself or transposed. Transposes
  // of the weight are ignored, because their own uses are checked.
  void keep_whole(ValueId value, const OpData& reader) {
    if (shard_.producer_as<Transpose>(value))
      splits_.erase(shard_.ops[shard_.values[value].producer].operands.front().index);
    if (!std::holds_alternative<Transpose>(reader)) splits_.erase(value.index);
  }

  void add_offsets(OpId id, ValueId weight) {
    const Op& op = shard_.ops[id];
    const Split& split = splits_.at(weight.index);
    Builder& b = rewriter_.build();
    const ValueId sums = sums_of(op.operands[0], split.block);
    const ValueId product = b.matmul(rewriter_(op.operands[0]), rewriter_(op.operands[1]));
    const ValueId whole = b.add(product, b.matmul(sums, turned_offsets(weight)));
    rewriter_.replace(id, {with_layout(whole, shard_.type(op.results[0]))});
  }

  // The sums of an old value [T, K] over the blocks of its rows: [T, K / block].
  ValueId sums_of(ValueId old, int64_t block) {
    const auto [at, is_new] = sums_.try_emplace({old.index, block});
    if (!is_new) return at->second;
    const Dims& dims = shard_.type(old).dims;
    Builder& b = rewriter_.build();
    const int64_t blocks = dims.at(1) / block;
    const ValueId parts = b.reshape(rewriter_(old), {dims.at(0), blocks, block});
    at->second = b.reshape(b.reduce(ReduceFn::sum, parts, 2), {dims.at(0), blocks});
    return at->second;
  }

  // [K / block, N], one value for all products with the weight.
  ValueId turned_offsets(ValueId weight) {
    const auto [at, is_new] = offsets_.try_emplace(weight.index);
    if (!is_new) return at->second;
    WeightView view = splits_.at(weight.index).offsets;
    at->second = rewriter_.build().weight(then(std::move(view), PermuteStep{{1, 0}}),
                                          shard_.label(weight) + ".offsets");
    return at->second;
  }

  ValueId with_layout(ValueId value, const Type& type) {
    if (rewriter_.build().type(value) == type) return value;
    return rewriter_.build().reshape(value, type.dims, type.layout);
  }

  const Shard& shard_;
  Rewriter rewriter_;
  std::map<uint32_t, Split> splits_;  // by weight
  std::map<std::pair<uint32_t, int64_t>, ValueId> sums_;
  std::map<uint32_t, ValueId> offsets_;
};

}  // namespace

Result<Shard> split_zeros(const Shard& shard, PassContext& context) {
  if (!context.options.target.engine.splits_zeros) return shard;
  return ZeroSplitter(shard).run();
}

}  // namespace moec
