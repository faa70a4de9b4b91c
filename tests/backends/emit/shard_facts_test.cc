// Facts about shards that the emitters of all formats share.
#include "backends/emit/shard_facts.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

// Returns whether the op has an attribute that sets the layout of its result.
bool has_layout_attribute(const OpData& data) {
  bool found = false;
  auto look = [&](std::string_view, const auto& value) {
    using Attribute = std::decay_t<decltype(value)>;
    found |= std::same_as<Attribute, Layout> || std::same_as<Attribute, Type>;
  };
  std::visit([&](const auto& op) { op.each_field(op, look); }, data);
  return found;
}

bool states_layout_of(const OpData& data) {
  Shard shard;
  const ValueId result = shard.values.push({.producer = OpId{0}});
  shard.ops.push({data, {}, {result}});
  return states_layout(shard, result);
}

TEST(StatesLayout, MatchesPresenceOfLayoutAttribute) {
#define MOEC_OP(Struct, name, ...) \
  EXPECT_EQ(states_layout_of(Struct{}), has_layout_attribute(Struct{})) << #name;
#include "ir/graph/ops.def"
}

TEST(StatesLayout, IsTrueForInputs) {
  Shard shard;
  const ValueId input = shard.values.push({});
  EXPECT_TRUE(states_layout(shard, input));
}

}  // namespace
}  // namespace moec
