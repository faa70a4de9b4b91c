#include <unordered_map>

#include "ir/graph/rewriter.h"
#include "passes/passes.h"

namespace moec {
namespace {

// The ops of the new shard by hash of attributes and operands. Never iterated, so that the result
// does not depend on the order of an unordered map.
class KnownOps {
 public:
  // Returns the earlier op with the same result. If there is none, records the op and returns null.
  const OpId* find_or_add(const Shard& shard, OpId id, const std::vector<ValueId>& operands) {
    std::vector<Entry>& bucket = buckets_[hash(shard.ops[id], operands)];
    for (const Entry& entry : bucket)
      if (entry.operands == operands && shard.ops[entry.op].data == shard.ops[id].data)
        return &entry.op;
    bucket.push_back({id, operands});
    return nullptr;
  }

 private:
  struct Entry {
    OpId op;
    std::vector<ValueId> operands;  // values of the new shard
  };

  static uint64_t hash(const Op& op, const std::vector<ValueId>& operands) {
    uint64_t hash = hash_attributes(op.data);
    for (ValueId operand : operands) hash = (hash ^ operand.index) * 0x100000001b3u;
    return hash;
  }

  std::unordered_map<uint64_t, std::vector<Entry>> buckets_;
};

}  // namespace

Result<Shard> eliminate_common(const Shard& shard, PassContext&) {
  Rewriter rewriter(shard);
  KnownOps known;
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    // A write has a side effect and no result to share.
    const OpId* same =
        writes_state(op.data) ? nullptr : known.find_or_add(shard, id, rewriter(op.operands));
    if (same)
      rewriter.replace(id, rewriter(shard.ops[*same].results));
    else
      rewriter.copy(id);
  }
  return rewriter.finish();
}

}  // namespace moec
