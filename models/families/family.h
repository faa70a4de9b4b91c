// Family descriptors: JSON files that say how a model family names its tensors, which config keys
// it reads, and which value it has on each axis of the architecture. No family has code of its own.
// models/families/README.md describes the format.
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

// The expression as a descriptor has it.
std::string to_string(const ConceptExpression& expression);

// Where a concept's value comes from: the first of `keys` that the config has, else `fallback`,
// else `expression`. Without any of these the config must have one of the keys.
struct ConceptRule {
  std::vector<std::string> keys;
  std::optional<JsonValue> fallback;  // JSON null: the concept stays unset
  std::optional<ConceptExpression> expression;
  std::vector<std::string> only;  // of a name: the accepted values; empty: all known ones
  bool refuses_null = false;  // a key that is null is an error, although the concept is optional
  std::optional<ConceptExpression> if_null;  // what a key that is null means, where not the default
  bool outer = false;  // the keys lie in the config of the larger model (OuterModel)
};

// A key that must have one of some values. Without it a config has the value `absent`, which need
// not be one of them; none: one that is.
struct MustRule {
  std::vector<JsonValue> accepted;
  std::optional<JsonValue> absent;
  std::string why;  // other values are refused; may be empty
};

// The keys of a config that no concept reads.
struct KeyRules {
  std::map<std::string, MustRule, std::less<>> must;
  std::map<std::string, std::string, std::less<>> harmless;  // key → why
  // Keys that the user passes over in one config, and that nothing may read. They open no object:
  // its other keys would be lost to readers of the whole.
  std::set<std::string, std::less<>> ignored;
};

// A larger model that holds the model of a family, beside towers for images or sound, which are
// left out. Its config has the family's as an object.
struct OuterModel {
  std::string model_type;
  std::string key;  // of that object
  KeyRules rules;   // of the keys beside it
};

// Of the router and its experts.
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
  visit("mlp", axes.mlp);
  visit("window", axes.window);
  visit("router", axes.moe.router);
  visit("renorm", axes.moe.renorm);
  visit("group_score", axes.moe.group_score);
  visit("routed_weight", axes.moe.routed_weight);
  visit("shared_expert", axes.moe.shared_expert);
  visit("gate_up_order", axes.moe.gate_up_order);
}

// A placeholder in patterns of ignored tensors. It stands for the number of a layer stored after
// the last one; the concept `mtp_layers` says how many there are.
inline constexpr std::string_view kMtpLayer = "{mtp}";

// Another one, of the number of an expert stored after the last one; the concept `further_experts`
// says how many there are.
inline constexpr std::string_view kFurtherExpert = "{further}";

struct Family {
  std::string model_type;
  std::vector<std::string> also;  // further model_types of the same structure
  std::string summary;
  FamilyAxes axes;
  int64_t moe_offset = 0;  // layer i can be MoE only if (i + moe_offset) mod moe_step = 0
  std::map<std::string, ConceptRule, std::less<>> concepts;
  KeyRules rules;
  std::map<std::string, std::vector<std::string>, std::less<>> tensors;  // role → templates
  std::map<std::string, std::string, std::less<>> ignored_tensors;       // pattern → why
  std::optional<OuterModel> outer;  // of a family inside of a larger model
  std::vector<Family> nested;       // this family inside of larger models
  // Without experts all layers are dense.
  bool has_experts() const { return concepts.contains("experts"); }
};

// Reads a descriptor, and adds the entries that all families share (families/common.json) to
// `must`, `harmless` and `ignored_tensors`. Errors: json.*, family.* with the field's name.
Result<Family> load_family(std::string_view text, const std::string& file = "<family>");

// The families compiled into the binary, sorted by model_type.
std::span<const Family> known_families();

// The JSON text of the built-in descriptor that describes configs of this model_type. Errors: those
// of find_family().
Result<std::string_view> family_text(std::string_view model_type);

// Whether the descriptor is for configs of this model_type. Larger models that hold the family do
// not count.
bool describes(const Family& family, std::string_view model_type);

// The family as configs of this model_type have it: itself, or inside of a larger model. Null if it
// does not describe them.
const Family* family_for(const Family& family, std::string_view model_type);

// Passes over these keys of a config, and of the larger model around it.
void ignore_keys(std::span<const std::string> keys, Family& family);

// The reason why no descriptor can express a model_type, for those in families/common.json.
std::optional<std::string> why_unsupported(std::string_view model_type);

// Errors: hf.family.unsupported, with the reason; hf.family.unknown, with the known model_types and
// the nearest of them.
Result<const Family*> find_family(std::string_view model_type);

}  // namespace moec
