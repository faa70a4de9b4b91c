// Which weights of a model are stored in which form (ir/graph/weight_form.h), as --weights says it.
//
//   int8                          a form for experts, attn, mlp, shared and head; others stay float
//   experts=int4,attn=int8        a form for some groups
//   experts@0-3=int8, experts@5=int8   a form for a group in some layers
//   all@0-3=int8                  a form for all groups of the first example in some layers
//   copy                          the codes of a checkpoint that stores them, as they are
//   4bit                          experts in 4 bits, in the form that the target prefers;
//                                 attn, mlp, shared and head in int8
//   experts=auto:3.5              so many bits for each weight of the experts on average, those of
//                                 each matrix chosen by what a calibration says
//   auto:3.5                      the same, and attn, mlp, shared and head in int8
//
// Items are separated by commas. Of the items that concern a weight, one with layers wins over one
// without, then one that names the group over one that does not, then the later one.
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
#include "ir/graph/weight_form.h"

namespace moec {

// Groups of weights by their role in the model (ir/model/model_config.h, TensorNames).
//   experts   gate, up and down of the routed experts
//   attn      the projections of attention
//   head      the output head, also where it is the embedding
//   router    the maps that make routing weights, and the gate of a shared expert
//   mlp       gate, up and down of dense layers
//   shared    gate, up and down of the shared expert, and the maps around the experts' latent
//   embed     the embedding's rows, a table of its own
//   vectors   norms, biases, sinks, scales: always float, cannot be named
enum class WeightGroup : uint8_t { experts, attn, head, router, mlp, shared, embed, vectors };
constexpr auto enum_names(WeightGroup) {
  return name_table<WeightGroup>(
      {"experts", "attn", "head", "router", "mlp", "shared", "embed", "vectors"});
}

// The group of a role; nothing for a name that is no role.
std::optional<WeightGroup> group_of_role(std::string_view role);

struct LayerRange {
  int64_t first = 0, last = 0;  // both included
  bool operator==(const LayerRange&) const = default;
};

struct WeightRule {
  std::optional<WeightGroup> group;  // none: the groups that a form alone concerns
  std::optional<LayerRange> layers;  // none: all
  WeightForm form;
  bool four_bit = false;  // the item 4bit: `form` is that of the experts
  // The item auto:BITS: `form` is that of 4 bits, and WeightPolicy::chosen has those of matrices.
  std::optional<double> bits;
  bool operator==(const WeightRule&) const = default;
};

// A tensor of the experts of a layer. `expert` is -1 where it holds all of them.
struct ExpertTensor {
  int64_t layer = -1, expert = -1;
  std::string role;
  auto operator<=>(const ExpertTensor&) const = default;
};

struct WeightPolicy {
  std::vector<WeightRule> rules;  // in the order of the items
  // Forms that were chosen for the items auto:BITS. They follow from these and a calibration, and
  // are no part of the policy's text.
  std::map<ExpertTensor, WeightForm> chosen;
  bool operator==(const WeightPolicy&) const = default;

  // The rule that decides; null: none. `layer` is -1 for the head.
  const WeightRule* rule_of(WeightGroup group, int64_t layer) const;
  WeightForm form_of(WeightGroup group, int64_t layer) const;
  // Of one tensor: the chosen form, where there is one.
  WeightForm form_of(WeightGroup group, const ExpertTensor& tensor) const;
  // Whether bits are to be chosen by a calibration.
  bool chooses_bits() const;
  // Whether every weight stays float.
  bool all_float() const;
  // The forms that some rule gives, each once.
  std::vector<WeightForm> forms() const;
};

// `four_bits` is the form of the experts that 4bit stands for; float: there is none. An empty text
// is an empty policy. Errors:
//   weights.form           no such form, or 4bit without one
//   weights.role           no such group
//   weights.layers         not a range of layers, or one of a group that lies in no layer
//   weights.embed          the embedding in another form than float: its rows are a table of floats
//   weights.auto           no number of bits from 1 to 8, or of another group than experts
Result<WeightPolicy> parse_weight_policy(std::string_view text, const WeightForm& four_bits);

// The items as parse_weight_policy() reads them, "float" for none.
std::string to_string(const WeightPolicy& policy);

// Checks a policy against a model. Errors: weights.layers (a range beyond the model's layers),
// weights.form (a float type that is not that of the shards).
Status check_weight_policy(const WeightPolicy& policy, int64_t layers, DType dtype);

}  // namespace moec
