// Family descriptors: JSON files that define a model family's tensor names, its config keys, and
// its value on each architecture axis. There is no family-specific code. models/families/README.md
// describes the format.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/json.h"
#include "ir/model/model_config.h"
#include "models/families/family_vocabulary.h"

namespace moec {

// "= hidden / heads": one concept, two joined by * or /, or "= sqrt hidden".
struct ConceptExpression {
  std::string left;
  char op = 0;  // '*', '/', 's' for the square root of `left`, or 0 for `left` alone
  std::string right;
  bool has_two() const { return op == '*' || op == '/'; }
};

// The expression as in a descriptor.
std::string to_string(const ConceptExpression& expression);

// The source of a concept's value: the first of `keys` in the config, then `fallback`, then
// `expression`. If all are absent, the config must have one of the keys.
struct ConceptRule {
  std::vector<std::string> keys;
  std::optional<JsonValue> fallback;  // JSON null: the concept stays unset
  std::optional<ConceptExpression> expression;
  std::vector<std::string> only;  // accepted values of a name; empty: all known ones
  // Name in configs → name in moec; empty: both are equal.
  std::map<std::string, std::string, std::less<>> meanings;
  bool null_is_default = false;              // null means the default
  bool refuses_null = false;                 // null is an error even if the concept is optional
  std::optional<ConceptExpression> if_null;  // value of null, if not the default
  bool outer = false;  // the keys are in the config of the larger model (OuterModel)
};

// A key with a closed set of accepted values. `absent` is the value assumed for a config without
// the key, and need not be in `accepted`. Without `absent`, a missing key is accepted.
struct MustRule {
  std::vector<JsonValue> accepted;
  std::optional<JsonValue> absent;
  std::string why;  // reason for refusing other values; may be empty
};

// Rules for config keys that no concept reads.
struct KeyRules {
  std::map<std::string, MustRule, std::less<>> must;
  std::map<std::string, std::string, std::less<>> harmless;  // key → why
  // Keys of one config that the user ignores and that nothing may read. Paths into objects are not
  // supported, because readers of the whole object would miss its other keys.
  std::set<std::string, std::less<>> ignored;
};

// A larger model that combines a family's model with image or audio towers; the towers are omitted.
// Its config contains the family's config as an object.
struct OuterModel {
  std::string model_type;
  std::string key;   // key of the family's config
  std::string type;  // model_type of the family's config inside; empty: the family's
  KeyRules rules;    // rules for all other keys
};

// Axes of the router and the experts.
struct MoeAxes {
  RouterKind router = RouterKind::linear;
  Renorm renorm = Renorm::sum;
  GroupScore group_score = GroupScore::max;
  RoutedWeight routed_weight = RoutedWeight::output;
  SharedExpert shared_expert = SharedExpert::none;
  GateUpOrder gate_up_order = GateUpOrder::gate_first;
};

struct FamilyAxes {
  Task task = Task::text_generation;
  AttentionKind attention = AttentionKind::gqa;
  AttentionGate attention_gate = AttentionGate::none;
  MixerKind mixer = MixerKind::attention;
  Direction direction = Direction::causal;
  BlockKind block = BlockKind::pre_norm;
  NormKind norm = NormKind::rms;
  ResidualKind residual = ResidualKind::plain;
  QkNormWidth qk_norm = QkNormWidth::none;
  RopeStyle rope = RopeStyle::half;
  RotatedLayers rotated = RotatedLayers::all;
  TemperedLayers tempered = TemperedLayers::unrotated;
  MlpKind mlp = MlpKind::gated;
  WindowRule window = WindowRule::none;
  MoeAxes moe;
};

// Calls visit(name, value) for each axis; `name` is its name in descriptors.
template <class Axes, class Visit>
void for_each_axis(Axes& axes, Visit&& visit) {
  visit("task", axes.task);
  visit("attention", axes.attention);
  visit("attention_gate", axes.attention_gate);
  visit("mixer", axes.mixer);
  visit("direction", axes.direction);
  visit("block", axes.block);
  visit("norm", axes.norm);
  visit("residual", axes.residual);
  visit("qk_norm", axes.qk_norm);
  visit("rope", axes.rope);
  visit("rotated", axes.rotated);
  visit("tempered", axes.tempered);
  visit("mlp", axes.mlp);
  visit("window", axes.window);
  visit("router", axes.moe.router);
  visit("renorm", axes.moe.renorm);
  visit("group_score", axes.moe.group_score);
  visit("routed_weight", axes.moe.routed_weight);
  visit("shared_expert", axes.moe.shared_expert);
  visit("gate_up_order", axes.moe.gate_up_order);
}

// A placeholder in patterns of ignored tensors: the number of a layer stored after the last one.
// The concept `mtp_layers` is the number of these layers.
inline constexpr std::string_view kMtpLayer = "{mtp}";

// As kMtpLayer, for the number of an expert stored after the last one. The concept
// `further_experts` is the number of these experts.
inline constexpr std::string_view kFurtherExpert = "{further}";
// As kMtpLayer, for the number of each layer without experts.
inline constexpr std::string_view kDenseLayer = "{dense}";

struct Family {
  std::string model_type;
  std::vector<std::string> also;  // additional model_types of the same structure
  std::string summary;
  std::string plan_only;  // why models can only be planned; empty: they can be exported
  FamilyAxes axes;
  int64_t moe_offset = 0;  // layer i can be MoE only if (i + moe_offset) mod moe_step = 0
  std::map<std::string, ConceptRule, std::less<>> concepts;
  KeyRules rules;
  std::map<std::string, std::vector<std::string>, std::less<>> tensors;  // role → templates
  std::map<std::string, std::string, std::less<>> ignored_tensors;       // pattern → why
  std::optional<OuterModel> outer;  // if the family is inside a larger model
  std::vector<Family> nested;       // this family inside larger models
  // Without experts all layers are dense.
  bool has_experts() const { return concepts.contains("experts"); }
};

// Reads a descriptor, and adds the entries that all families share (families/common.json) to
// `must`, `harmless` and `ignored_tensors`. Errors: json.*, family.* with the field's name.
Result<Family> load_family(std::string_view text, const std::string& file = "<family>");

// The families compiled into the binary, sorted by model_type.
std::span<const Family> known_families();

// The JSON text of the built-in descriptor for configs of this model_type. Errors: those of
// find_family().
Result<std::string_view> family_text(std::string_view model_type);

// True if the descriptor is for configs of this model_type; false for larger models that contain
// the family.
bool describes(const Family& family, std::string_view model_type);

// The variant of the family for configs of this model_type: the family itself or one of `nested`.
// Null if there is none.
const Family* family_for(const Family& family, std::string_view model_type);

// Adds `keys` to the ignored keys of the family, of its larger model, and of nested variants.
void ignore_keys(std::span<const std::string> keys, Family& family);

// The reason why no descriptor can express a model_type, if families/common.json has one.
std::optional<std::string> why_unsupported(std::string_view model_type);

// Errors: hf.family.unsupported, with the reason; hf.family.unknown, with the known model_types and
// the nearest one.
Result<const Family*> find_family(std::string_view model_type);

}  // namespace moec
