#include <algorithm>
#include <optional>

#include "ir/graph/rewriter.h"
#include "passes/passes.h"

namespace moec {
namespace {

// The view step equivalent to an op on one weight. Empty for ops that cannot be folded, such as a
// reshape to a token tensor, because a view has no layout.
std::optional<ViewStep> step_of(const OpData& data) {
  if (const auto* op = std::get_if<Slice>(&data)) return SliceStep{op->axis, op->begin, op->size};
  if (const auto* op = std::get_if<Cast>(&data)) return CastStep{op->dtype};
  if (const auto* op = std::get_if<Reshape>(&data); op && op->layout == Layout::plain)
    return ReshapeStep{op->dims};
  if (const auto* op = std::get_if<Transpose>(&data); op && op->layout == Layout::plain)
    return PermuteStep{op->perm};
  return std::nullopt;
}

struct FoldedWeight {
  std::optional<WeightView> view;  // set if the value is a weight, perhaps after folding
  std::string name;                // of the value, or of the weight from which it is computed
  bool needed = false;             // used by an op that is not folded, or an output
};

class WeightFolder {
 public:
  explicit WeightFolder(const Shard& shard) : shard_(shard), folded_(shard.values.size()) {
    for (OpId id : op_ids(shard)) fold(shard.ops[id]);
    for (const Op& op : shard.ops)
      if (!is_folded(op)) need(op.operands);
    for (const Output& output : shard.outputs) need({output.value});
  }

  Shard rewrite() {
    Rewriter rewriter(shard_);
    for (OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (!is_folded(op)) {
        rewriter.copy(id);
      } else if (const FoldedWeight& weight = folded_[op.results[0]]; weight.needed) {
        rewriter.replace(id, {rewriter.build().weight(*weight.view, weight.name)});
      }
    }
    return rewriter.finish();
  }

 private:
  bool is_folded(const Op& op) const {
    return op.results.size() == 1 && folded_[op.results[0]].view.has_value();
  }

  void fold(const Op& op) {
    std::optional<WeightView> view = view_of(op);
    if (!view) return;
    FoldedWeight& result = folded_[op.results[0]];
    result.view = std::move(view);
    result.name = shard_.values[op.results[0]].name;
    if (result.name.empty() && !op.operands.empty()) result.name = folded_[op.operands[0]].name;
  }

  std::optional<WeightView> view_of(const Op& op) const {
    if (const auto* weight = std::get_if<Weight>(&op.data)) {
      // The blocks of an encoded weight would not match the view after further steps.
      if (!is_plain(weight->encoding)) return std::nullopt;
      return weight->view;
    }
    const bool on_weights =
        !op.operands.empty() && std::all_of(op.operands.begin(), op.operands.end(),
                                            [&](ValueId v) { return folded_[v].view.has_value(); });
    if (!on_weights) return std::nullopt;
    if (const auto* concat = std::get_if<Concat>(&op.data)) {
      std::vector<WeightView> parts;
      for (ValueId operand : op.operands) parts.push_back(*folded_[operand].view);
      return concat_view(concat->axis, std::move(parts));
    }
    std::optional<ViewStep> step = step_of(op.data);
    if (!step) return std::nullopt;
    return then(*folded_[op.operands[0]].view, std::move(*step));
  }

  void need(const std::vector<ValueId>& values) {
    for (ValueId value : values) folded_[value].needed = true;
  }

  const Shard& shard_;
  IdMap<ValueId, FoldedWeight> folded_;
};

}  // namespace

Result<Shard> fold_weight_views(const Shard& shard, PassContext&) {
  return WeightFolder(shard).rewrite();
}

}  // namespace moec
