#include <map>

#include "ir/graph/rewriter.h"
#include "passes/passes.h"
#include "passes/turned_factor.h"

namespace moec {
namespace {

// True if the encoding has one scale per block of inputs of a row of [N, K].
bool has_blocks_in_rows(const Encoding& encoding, const Type& type) {
  const auto* affine = std::get_if<AffineEncoding>(&encoding);
  if (!affine || type.rank() != 2 || affine->block.at(0) != 1) return false;
  return affine->bits < 8 || affine->block.at(1) != type.dims.at(1);
}

class MatmulBatcher {
 public:
  explicit MatmulBatcher(const Shard& shard) : shard_(shard), rewriter_(shard) {}

  Shard run() {
    for (OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (takes_codes(op))
        batch(id);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  // True for a matmul [T, K] · [K, N] whose [K, N] is the transpose of a block-quantized weight.
  bool takes_codes(const Op& op) const {
    const auto rows = turned_factor(shard_, op);
    const auto* weight = rows ? shard_.producer_as<Weight>(*rows) : nullptr;
    return weight && has_blocks_in_rows(weight->encoding, shard_.type(*rows));
  }

  void batch(OpId id) {
    const Op& op = shard_.ops[id];
    const ValueId rows = batched(op.operands[0]), matrix = batched(op.operands[1]);
    const ValueId product = rewriter_.build().matmul(rows, matrix);
    rewriter_.replace(id, {with_dims(product, op.results.front())});
  }

  // An old value [A, B] as [1, A, B]; all its uses share one reshape.
  ValueId batched(ValueId old) {
    const auto [at, is_new] = batched_.try_emplace(old);
    const Dims& dims = shard_.type(old).dims;
    if (is_new) at->second = rewriter_.build().reshape(rewriter_(old), {1, dims.at(0), dims.at(1)});
    return at->second;
  }

  // A new value with the sizes and the layout of an old one.
  ValueId with_dims(ValueId value, ValueId old) {
    const Type& type = shard_.type(old);
    return rewriter_.build().reshape(value, type.dims, type.layout);
  }

  const Shard& shard_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> batched_;
};

}  // namespace

Result<Shard> batch_coded_matmuls(const Shard& shard, PassContext& context) {
  if (context.options.target.engine.coded_matmul_rank < 3) return shard;
  return MatmulBatcher(shard).run();
}

}  // namespace moec
