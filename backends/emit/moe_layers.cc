#include "backends/emit/moe_layers.h"

#include "ir/base/at.h"

namespace moec {

WeightOwner owner_of(const WeightShare& share, const std::vector<int64_t>& layers) {
  if (share.role == WeightRole::plain) return {};
  // The share counts the MoE layers of the shard from 0; owners name layers of the model.
  return {share.role, at(layers, share.moe_layer), share.first, share.count,
          static_cast<int64_t>(share.axis)};
}

WeightOwners owners_of(const Shard& shard, const MoeLayers& moe,
                       const std::function<std::string(ValueId)>& name) {
  const IdMap<OpId, OpRole> roles = find_experts(shard, moe.experts, moe.layers.size());
  WeightOwners owners;
  for (OpId id : op_ids(shard))
    if (std::holds_alternative<Weight>(shard.ops[id].data))
      owners[name(shard.ops[id].results[0])] = owner_of(roles[id].share, moe.layers);
  return owners;
}

}  // namespace moec
