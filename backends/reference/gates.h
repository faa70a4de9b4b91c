// Parts of a shard that a run computes only for some indices of an axis: an expert for the tokens
// that chose it, attention for the keys that a token sees. A gate is a value that selects these
// indices. Its part is a set of ops that do not change the results of other ops at all other
// indices.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backends/reference/reference.h"
#include "ir/graph/shard.h"

namespace moec {

// tokens: the gate has one number per token. Where it is 0, the rest of the shard reads only zeros
//         from the part if its weights are finite.
// keys: the gate is an attention mask whose last axis counts the keys. The probability of a key is
//       0 if its mask is at most kHidden for each token, each token sees another key, and the
//       scores of a token differ by less than 4,800: exp(-200) is 0 in f32.
enum class GateAxis : uint8_t { tokens, keys };

// Exports mask with -4e4 or less (masked_score() in ir/model/plan.h), and with 0 what a token sees.
constexpr float kHidden = -5000;

// Axis of a value that counts tokens or keys, and which of them its first element is.
struct CountedAxis {
  int32_t axis = -1;  // -1: unknown, or none
  int64_t first = 0;
  bool operator==(const CountedAxis&) const = default;
};

// Values of attention_core.h, computed by `op`.
struct AttentionCore {
  OpId op;
  ValueId queries, old_keys, new_keys, old_values, new_values, mask;
};

struct Gate {
  ValueId weights;       // an input, or a slice
  OpId slice;            // the op that computes the weights; invalid for an input
  uint32_t last_op = 0;  // index of the last op of the part
  GateAxis along = GateAxis::tokens;
  // Of keys: the axes of the values that the part reads and computes. With an argument, because the
  // default constructor is explicit.
  IdMap<ValueId, CountedAxis> key_axis = IdMap<ValueId, CountedAxis>(0);
  std::optional<AttentionCore> core;  // of keys: all that the part computes
};

struct Gates {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::vector<Gate> gates;
  IdMap<OpId, uint32_t> of_op{0, kNone};        // gate whose part has the op
  IdMap<ValueId, uint32_t> of_value{0, kNone};  // the same for the results of these ops
  IdMap<ValueId, uint8_t> leaves;               // 1: a result of a part that ops outside of it read
  IdMap<ValueId, CountedAxis> token_axis;

  // True for a result of a part of selected tokens that ops outside of it read.
  bool is_leaf_of_tokens(ValueId id) const {
    const uint32_t gate = of_value[id];
    return leaves[id] != 0 && gate != kNone && gates[gate].along == GateAxis::tokens;
  }
  // True if the gate opens its part for the only token of the step, or closes it.
  bool is_of_one_token(const Shard& shard, uint32_t gate) const {
    return gates[gate].along == GateAxis::tokens && shard.type(gates[gate].weights).elements() == 1;
  }
  // The axis along which a gate selects elements of a value.
  CountedAxis axis(ValueId id, uint32_t gate) const {
    return gates[gate].along == GateAxis::tokens ? token_axis[id] : gates[gate].key_axis[id];
  }
};

// `is_brought` is true for values that no run computes: weights, and what depends on constants.
Gates find_gates(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought);
// Add the gates of one kind.
void find_token_gates(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought, Gates& gates);
void find_key_gates(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought, Gates& gates);

// The indices that an open gate selects, and values of the rest of the shard that its part has
// read.
struct OpenGate {
  std::vector<int64_t> indices;  // ascending
  bool all = false;              // every index: nothing is gathered
  std::map<ValueId, Tensor> gathered;
};

// Tokens whose weight is not 0, NaN included; keys that a token sees, or all if a token sees none.
OpenGate open_gate(const Gate& gate, const Tensor& weights);

// Writes elements [from, from + count) of a tensor as f32.
void copy_elements(const Tensor& tensor, int64_t from, int64_t count, float* to);
// The tensor with all elements in `data`.
Tensor widened(const Tensor& tensor);

// Number of selected indices that a value of this size has along the axis.
int64_t count_selected(const OpenGate& open, const CountedAxis& axis, int64_t size);
// The elements of a value at the selected indices, of which there is at least one.
Tensor gather_selected(const Tensor& from, const CountedAxis& axis, const OpenGate& open);
// The elements of a concatenation along the axis of the gate, from its whole operands. `type` is
// the type of the result.
struct SelectedOperand {
  const Tensor* whole = nullptr;
  CountedAxis axis;
};
Tensor concat_selected(std::span<const SelectedOperand> operands, const Type& type,
                       const OpenGate& open);
// A value of type `type` with the elements of `part` at the selected indices, and zeros elsewhere.
Tensor scatter_selected(const Tensor& part, const Type& type, const CountedAxis& axis,
                        const OpenGate& open);
// Adds the elements of `part` to those of `whole` at the selected indices.
void add_selected(const Tensor& part, const CountedAxis& axis, const OpenGate& open, Tensor& whole);
void add_elements(const float* from, int64_t count, float* to);
// The type with another size of an axis.
Type with_size(Type type, int64_t axis, int64_t size);

}  // namespace moec
