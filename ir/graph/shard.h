// A shard: the body of one emitted file, as straight-line SSA over typed ids.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/base/ids.h"
#include "ir/graph/ops.h"

namespace moec {

struct Value {
  Type type;
  std::string
      name;  // unique in the shard if not empty: "experts.3.gate"; [A-Za-z0-9_.]+, not a number
  OpId producer;  // invalid for an input
  bool operator==(const Value&) const = default;
};

struct Op {
  OpData data;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  bool operator==(const Op&) const = default;
};

struct Output {
  std::string name;
  ValueId value;
  bool operator==(const Output&) const = default;
};

struct State {
  std::string name;
  Type type;
  bool operator==(const State&) const = default;
};

// Value ids follow the order of definition: first the inputs, then the results of each op. An
// input's port name is its value's name.
struct Shard {
  std::string name;  // "L03.moe"
  Form form = Form::model;
  std::vector<ValueId> inputs;
  std::vector<State> states;
  IdVector<ValueId, Value> values;
  IdVector<OpId, Op> ops;
  std::vector<Output> outputs;

  bool operator==(const Shard&) const = default;

  const Type& type(ValueId id) const { return values[id].type; }
  const State* find_state(std::string_view state_name) const;
  // Returns the op that defines the value if the op is an OpT, else null.
  template <class OpT>
  const OpT* producer_as(ValueId id) const {
    OpId producer = values[id].producer;
    return producer.valid() ? std::get_if<OpT>(&ops[producer].data) : nullptr;
  }
  // Returns the value's name, or its number as text ("12") if it has no name.
  std::string label(ValueId id) const;
};

// True if the value is a weight or a constant.
inline bool is_source(const Shard& shard, ValueId value) {
  const OpId producer = shard.values[value].producer;
  return producer.valid() && is_source(shard.ops[producer].data);
}

// Counts, for each value, its uses as an operand or an output.
IdMap<ValueId, uint32_t> count_uses(const Shard& shard);

// Returns, for each value, the ops that use it as an operand, in order; an op once per use.
IdMap<ValueId, std::vector<OpId>> find_users(const Shard& shard);

// The ids of a shard's ops, in order: for (OpId op : op_ids(shard)) …
class OpIds {
 public:
  explicit OpIds(size_t count) : count_(static_cast<uint32_t>(count)) {}
  struct Iterator {
    uint32_t index;
    OpId operator*() const { return OpId{index}; }
    Iterator& operator++() { return ++index, *this; }
    bool operator==(const Iterator&) const = default;
  };
  Iterator begin() const { return {0}; }
  Iterator end() const { return {count_}; }

 private:
  uint32_t count_;
};
inline OpIds op_ids(const Shard& shard) { return OpIds(shard.ops.size()); }

}  // namespace moec
