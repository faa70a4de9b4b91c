// How a pass makes a new shard from a const one: walk the old ops in order, copy those that stay,
// emit others in place of those that change.
//
//   Rewriter rewriter(shard);
//   for (OpId op : op_ids(shard)) {
//     if (const auto* norm = std::get_if<RmsNorm>(&shard.ops[op].data))
//       rewriter.replace(op, {lower(rewriter, *norm, op)});
//     else
//       rewriter.copy(op);
//   }
//   return rewriter.finish();
#pragma once

#include <string>
#include <vector>

#include "ir/graph/builder.h"

namespace moec {

class Rewriter {
 public:
  // Declares the old shard's inputs and states in the new one.
  explicit Rewriter(const Shard& from);

  Builder& build() { return builder_; }

  // The new value that stands for an old one. The old value must have been copied or replaced.
  ValueId operator()(ValueId old) const;
  std::vector<ValueId> operator()(const std::vector<ValueId>& olds) const;

  // The old op with mapped operands; result names are kept.
  void copy(OpId op);
  // The same with other attributes and/or new-shard operands; result types may change.
  void copy_as(OpId op, OpData data, std::vector<ValueId> new_operands);
  // New values take the place of the op's results, in order. A replacement that has no name yet
  // takes the old result's name.
  void replace(OpId op, std::vector<ValueId> new_results);
  void replace_value(ValueId old, ValueId new_value);

  // The name of the op's first result, for NameScope; "op12" when it has none.
  std::string scope_name(OpId op) const;

  // Maps the outputs and hands over the new shard.
  Shard finish();

 private:
  const Shard& from_;
  Builder builder_;
  IdMap<ValueId, ValueId> map_;
};

}  // namespace moec
