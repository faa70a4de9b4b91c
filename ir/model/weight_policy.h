// Storage forms of a model's weights (ir/graph/weight_form.h): the policy of --weights.
//
//   int8                          a form for experts, attn, mlp, shared and head; others stay float
//   experts=int4,attn=int8        one form per group
//   experts@0-3=int8, experts@5=int8   a form for one group in some layers
//   all@0-3=int8                  a form for the groups of the first example in some layers
//   copy                          the checkpoint's own codes, unchanged
//   4bit                          experts in the target's preferred 4-bit form; attn, mlp, shared
//                                 and head in int8
//   experts=auto:3.5              experts with 3.5 bits per weight on average; a calibration
//                                 chooses the bits of each matrix
//   auto:3.5                      as above, and attn, mlp, shared and head in int8
//
// Items are separated by commas. If several items apply to a weight, an item with layers takes
// precedence over one without. Among those, an item that names the group takes precedence, then the
// later item.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_id.h"
#include "ir/graph/weight_form.h"

namespace moec {

// Groups of weights by their role in the model (ir/model/model_config.h, TensorNames).
//   experts   gate, up and down of the routed experts
//   attn      the projections of attention
//   head      the output head, also if it is tied to the embedding
//   router    the maps that compute routing weights, and the gate of a shared expert
//   mlp       gate, up and down of dense layers
//   shared    gate, up and down of the shared expert, and the maps to and from the experts' latent
//   embed     the table of embedding rows
//   vectors   norms, biases, sinks, scales: always float, cannot be named
enum class WeightGroup : uint8_t { experts, attn, head, router, mlp, shared, embed, vectors };
constexpr auto enum_names(WeightGroup) {
  return name_table<WeightGroup>(
      {"experts", "attn", "head", "router", "mlp", "shared", "embed", "vectors"});
}

// Returns the group of a role; empty for unknown roles.
std::optional<WeightGroup> group_of_role(std::string_view role);

struct LayerRange {
  int64_t first = 0, last = 0;  // both included
  bool operator==(const LayerRange&) const = default;
};

struct WeightRule {
  std::optional<WeightGroup> group;  // absent: experts, attn, mlp, shared, head
  std::optional<LayerRange> layers;  // absent: all
  WeightForm form;
  bool four_bit = false;  // the item 4bit: `form` is the form of the experts
  // The item auto:BITS: `form` is the 4-bit form, and WeightPolicy::chosen has the form of each
  // matrix.
  std::optional<double> bits;
  bool operator==(const WeightRule&) const = default;
};

struct WeightPolicy {
  std::vector<WeightRule> rules;  // in the order of the items
  // Forms that a calibration chose for items auto:BITS. They are not part of the policy's text.
  std::map<RoleTensor, WeightForm> chosen;
  bool operator==(const WeightPolicy&) const = default;

  // Returns the rule that applies, or null. `layer` is -1 for the head.
  const WeightRule* rule_of(WeightGroup group, int64_t layer) const;
  WeightForm form_of(WeightGroup group, int64_t layer) const;
  // Returns the form of one tensor: its chosen form if there is one, else the form of the group.
  WeightForm form_of(WeightGroup group, const RoleTensor& tensor) const;
  // True if a calibration must choose bits.
  bool chooses_bits() const;
  // True if every weight stays float.
  bool all_float() const;
  // The distinct forms of all rules and of `chosen`.
  std::vector<WeightForm> forms() const;
};

// `four_bits` is the form of experts for the item 4bit; float if the target has none. An empty text
// yields an empty policy. Errors:
//   weights.form           unknown form, or 4bit without a form of the target
//   weights.role           unknown group
//   weights.layers         not a range of layers, or a range for a group outside of layers
//   weights.embed          another form than float for the embedding, which is a table of floats
//   weights.auto           not a number of bits from 1 to 8, or another group than experts
Result<WeightPolicy> parse_weight_policy(std::string_view text, const WeightForm& four_bits);

// The items in the syntax of parse_weight_policy(); "float" for an empty policy.
std::string to_string(const WeightPolicy& policy);

// Checks a policy against a model. Errors: weights.layers (a range beyond the model's layers),
// weights.form (a float type other than `dtype`, the type of the shards).
Status check_weight_policy(const WeightPolicy& policy, int64_t layers, DType dtype);

}  // namespace moec
