// The parts of a shard that an emitted file preserves, for tests of the readers.
#pragma once

#include <gtest/gtest.h>

#include "ir/graph/scalar.h"
#include "ir/graph/shard.h"

namespace moec {

// Reduces a shard to what a file preserves: a weight's bytes without its view, and a constant's
// values rounded to its element type.
inline Shard as_filed(const Shard& shard) {
  Shard filed = shard;
  filed.ops = {};
  for (const Op& op : shard.ops) {
    Op kept = op;
    if (std::holds_alternative<Weight>(op.data))
      kept.data = Weight{tensor_view("", shard.type(op.results.front()))};
    if (auto* constant = std::get_if<Constant>(&kept.data))
      for (double& value : constant->values)
        if (is_float(constant->type.dtype))
          value = round_to(constant->type.dtype, static_cast<float>(value));
    filed.ops.push(std::move(kept));
  }
  return filed;
}

inline Shard with_nameless_views(Shard shard) {
  for (OpId op : op_ids(shard))
    if (auto* weight = std::get_if<Weight>(&shard.ops[op].data)) {
      EXPECT_EQ(weight->view.steps.size(), 0u);
      std::get<TensorSource>(weight->view.source).name.clear();
    }
  return shard;
}

}  // namespace moec
