// Builds a new shard from a const one. A pass visits the old ops in order, copies the ones that do
// not change, and emits replacements for the others.
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

  // Returns the new value for an old value, which must already be copied or replaced.
  ValueId operator()(ValueId old) const;
  std::vector<ValueId> operator()(const std::vector<ValueId>& olds) const;

  // Emits the old op with mapped operands; its results keep their names.
  void copy(OpId op);
  // copy() with other attributes and operands; the operands are values of the new shard. Result
  // types may change.
  void copy_as(OpId op, OpData data, std::vector<ValueId> new_operands);
  // Replaces the op's results, in order, by new values. A new value without a name gets the name of
  // the old result.
  void replace(OpId op, std::vector<ValueId> new_results);
  void replace_value(ValueId old, ValueId new_value);

  // The name of the op's first result, for NameScope; "op12" if it has none.
  std::string scope_name(OpId op) const;

  // Maps the outputs and returns the new shard.
  Shard finish();

 private:
  const Shard& from_;
  Builder builder_;
  IdMap<ValueId, ValueId> map_;
};

}  // namespace moec
