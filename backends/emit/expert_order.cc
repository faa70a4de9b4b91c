#include "backends/emit/expert_order.h"

#include <algorithm>

namespace moec {

ExpertOrder::ExpertOrder(const Shard& shard, const ExpertLayout& experts) {
  for (const OpId op : op_ids(shard)) ops_.push_back(op);
  if (experts.alignment == 0 || !experts.layers) return;
  alignment_ = experts.alignment;
  roles_ = find_experts(shard, experts.layers->experts, experts.layers->layers.size());
  // An absent owner compares less than any expert, so other weights come first. A stable sort keeps
  // the graph order among the weights of one expert.
  std::stable_sort(ops_.begin(), ops_.end(), [&](OpId a, OpId b) { return owner(a) < owner(b); });
}

std::optional<ExpertOrder::Expert> ExpertOrder::owner(OpId op) const {
  const WeightShare& share = roles_[op].share;
  // A bank contains several experts in one tensor and cannot be divided among them. A router row is
  // not an expert's weight.
  if (share.role != WeightRole::expert || share.count != 1) return std::nullopt;
  return Expert{share.moe_layer, share.first};
}

void ExpertOrder::begin(OpId op, DataLayout& layout) {
  if (alignment_ == 0) return;
  const std::optional<Expert> expert = owner(op);
  // Only the first weight of an expert is aligned; the others keep the alignment of the format.
  if (expert && expert != last_) layout.align_next(alignment_);
  last_ = expert;
}

}  // namespace moec
