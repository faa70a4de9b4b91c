#include "ir/model/weight_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

using enum WeightGroup;

struct RoleGroup {
  std::string_view role;
  WeightGroup group;
};

// group_of_role() knows the roles of the two tables and, through is_bias(), their biases.
constexpr RoleGroup kMatrices[] = {
    {"embed", embed},
    {"lm_head", head},
    {"q", attn},
    {"k", attn},
    {"v", attn},
    {"qkv", attn},
    {"attn_gate", attn},
    {"o", attn},
    {"q_a", attn},
    {"q_b", attn},
    {"kv_a", attn},
    {"kv_b", attn},
    {"v_current", attn},
    {"v_delayed", attn},
    {"channel_conv", attn},
    {"head_conv", attn},
    {"mixer_in", attn},
    {"mixer_qkv", attn},
    {"mixer_z", attn},
    {"mixer_qkvz", attn},
    {"mixer_q", attn},
    {"mixer_k", attn},
    {"mixer_v", attn},
    {"mixer_z_down", attn},
    {"mixer_z_up", attn},
    {"mixer_out", attn},
    {"router", router},
    {"router_in_out", router},
    {"router_down", router},
    {"router_fc1", router},
    {"router_fc2", router},
    {"shared_sigmoid_gate", router},
    {"expert_gate", experts},
    {"expert_up", experts},
    {"expert_down", experts},
    {"experts_gate", experts},
    {"experts_up", experts},
    {"experts_gate_up", experts},
    {"experts_down", experts},
    {"experts_gate_up_in_out", experts},
    {"experts_down_in_out", experts},
    {"shared_gate_proj", shared},
    {"shared_up", shared},
    {"shared_gate_up", shared},
    {"shared_down", shared},
    {"latent_in", shared},
    {"latent_out", shared},
    {"gate", mlp},
    {"gate_up", mlp},
    {"up", mlp},
    {"down", mlp},
};

// Roles that always stay float: they are small, and some determine the decay of a recurrent state.
constexpr std::string_view kVectors[] = {
    "final_norm",
    "attn_norm",
    "ffn_norm",
    "attn_post_norm",
    "ffn_post_norm",
    "ffn_routed_norm",
    "ffn_routed_post_norm",
    "ffn_shared_post_norm",
    "layer_scale",
    "router_scale",
    "router_expert_scale",
    "q_norm",
    "k_norm",
    "q_a_norm",
    "kv_a_norm",
    "sinks",
    "k_temperature",
    "mixer_b",
    "mixer_a",
    "mixer_ba",
    "mixer_conv",
    "mixer_q_conv",
    "mixer_k_conv",
    "mixer_v_conv",
    "mixer_decay_map",
    "mixer_decay_map_down",
    "mixer_decay_map_up",
    "mixer_decay",
    "mixer_decay_grid",
    "mixer_skip",
    "mixer_norm",
    "embed_scale",
    "attn_part_scale",
    "attn_residual_scale",
    "ffn_part_scale",
    "ffn_residual_scale",
    "router_state_scale",
    "router_norm",
    "router_choice_bias",
    "router_choice_bias_row",
    "router_choice_bias_rows",
};

// True for the bias of a matrix, a norm, or a term of the residual stream (whose X_scale is listed
// above).
bool is_bias(std::string_view role) {
  constexpr std::string_view kSuffix = "_bias";
  if (!role.ends_with(kSuffix)) return false;
  role.remove_suffix(kSuffix.size());
  // A term X of the residual stream has no matrix, so only its scale is in a table.
  return group_of_role(role) || group_of_role(std::string(role) + "_scale").has_value();
}

// The groups to which a form without a group applies.
constexpr bool is_encodable(WeightGroup group) {
  // Routers and the embedding stay float unless a rule names their group.
  return group == experts || group == attn || group == mlp || group == shared || group == head;
}

std::vector<std::string_view> group_names() {
  const auto names = enum_names(WeightGroup{});
  // The last name is `vectors`, which no rule may name.
  std::vector<std::string_view> known(names.begin(), names.end() - 1);
  known.emplace_back("all");
  return known;
}

bool concerns(const WeightRule& rule, WeightGroup group, int64_t layer) {
  if (rule.group ? *rule.group != group : !is_encodable(group)) return false;
  return !rule.layers || (rule.layers->first <= layer && layer <= rule.layers->last);
}

// A range of layers takes precedence over a group.
int precedence(const WeightRule& rule) { return (rule.layers ? 2 : 0) + (rule.group ? 1 : 0); }

Result<LayerRange> parse_layers(std::string_view text, std::string_view item) {
  const size_t dash = text.find('-');
  // One number is a range of one layer.
  const auto first = parse_whole(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_whole(text.substr(dash + 1));
  if (first && last && *first <= *last) return LayerRange{*first, *last};
  return fail("weights.layers",
              fmt::format("--weights {}: '{}' is not a range of layers", item, text),
              "write a range as in experts@0-3=int8, or one layer as in experts@3=int8");
}

Result<std::optional<WeightGroup>> parse_group(std::string_view name, std::string_view item) {
  if (name == "all") return std::optional<WeightGroup>();
  const auto group = parse_enum<WeightGroup>(name);
  if (group && *group != vectors) return group;
  const std::vector<std::string_view> known = group_names();
  return fail(
      "weights.role",
      fmt::format("--weights {}: there is no group of weights '{}'{}", item, name,
                  did_you_mean(name, known)),
      fmt::format("the groups are {}; norms, biases and sinks stay float", fmt::join(known, ", ")));
}

Status check_rule(const WeightRule& rule, std::string_view item) {
  if (rule.group == embed && !is_float(rule.form) && !is_block(rule.form))
    return fail(
        "weights.embed",
        fmt::format("--weights {}: embed.bin supports embedding rows only in the element type "
                    "of the export",
                    item),
        "omit it, or use embed=float; use head=FORM for the output head, even if it is tied to "
        "the embedding");
  // The head and the embedding are outside of the layers, so such a rule would never apply.
  if (rule.layers && (rule.group == head || rule.group == embed))
    return fail(
        "weights.layers",
        fmt::format("--weights {}: {} is not part of a layer", item, enum_name(*rule.group)),
        fmt::format("use {}=FORM", enum_name(*rule.group)));
  return {};
}

constexpr std::string_view kAuto = "auto";

// Completes a rule from its form, the text auto:BITS.
Status parse_auto(std::string_view text, std::string_view item, const WeightForm& four_bits,
                  WeightRule& rule) {
  // min() avoids a position beyond the end of a text without a colon.
  const std::string_view number = text.substr(std::min(text.size(), kAuto.size() + 1));
  const double bits = parse_number<double>(number).value_or(0);
  // Negated, so that NaN is refused, too.
  if (!(bits >= 1 && bits <= 8))
    return fail("weights.auto",
                fmt::format("--weights {}: the average must be a number of bits from 1 to 8", item),
                "write the average bits per weight, as in auto:3.5");
  if (rule.group && *rule.group != experts)
    return fail("weights.auto", fmt::format("--weights {}: auto supports only experts", item),
                "use experts=auto:BITS, and a form such as int8 for this group");
  // A target without a preferred 4-bit form passes a float form, which has no codes.
  if (is_float(four_bits))
    return fail("weights.form",
                fmt::format("--weights {}: the target has no preferred 4-bit form", item),
                "name the forms, such as experts=int8");
  rule.bits = bits;
  rule.form = four_bits;
  rule.four_bit = !rule.group;
  return {};
}

Result<WeightRule> parse_item(std::string_view item, const WeightForm& four_bits) {
  if (item == "4bit" && is_float(four_bits))
    return fail("weights.form", "--weights 4bit: the target has no preferred 4-bit form",
                "name the forms, such as experts=int8");
  // The group is empty, so the rule applies to all encodable groups.
  if (item == "4bit") return WeightRule{{}, {}, four_bits, true};
  WeightRule rule;
  const size_t equals = item.find('=');
  // A form contains no '=', so the first '=' separates the group from the form.
  if (equals != std::string_view::npos) {
    std::string_view name = item.substr(0, equals);
    if (const size_t sign = name.find('@'); sign != std::string_view::npos) {
      MOEC_ASSIGN(rule.layers, parse_layers(name.substr(sign + 1), item));
      name = name.substr(0, sign);
    }
    MOEC_ASSIGN(rule.group, parse_group(name, item));
  }
  const std::string_view form = equals == std::string_view::npos ? item : item.substr(equals + 1);
  if (form.substr(0, form.find(':')) == kAuto) {
    MOEC_TRY(parse_auto(form, item, four_bits, rule));
    return rule;
  }
  MOEC_ASSIGN(rule.form, parse_weight_form(form));
  MOEC_TRY(check_rule(rule, item));
  return rule;
}

std::string item_text(const WeightRule& rule) {
  if (rule.four_bit && !rule.bits) return "4bit";
  std::string form = rule.bits ? fmt::format("auto:{}", *rule.bits) : to_string(rule.form);
  if (!rule.group && !rule.layers) return form;
  std::string layers;
  if (rule.layers && rule.layers->first == rule.layers->last)
    layers = fmt::format("@{}", rule.layers->first);
  else if (rule.layers)
    layers = fmt::format("@{}-{}", rule.layers->first, rule.layers->last);
  return fmt::format("{}{}={}", rule.group ? enum_name(*rule.group) : "all", layers, form);
}

}  // namespace

std::optional<WeightGroup> group_of_role(std::string_view role) {
  for (const RoleGroup& known : kMatrices)
    if (known.role == role) return known.group;
  if (std::find(std::begin(kVectors), std::end(kVectors), role) != std::end(kVectors))
    return vectors;
  return is_bias(role) ? std::optional(vectors) : std::nullopt;
}

const WeightRule* WeightPolicy::rule_of(WeightGroup group, int64_t layer) const {
  const WeightRule* found = nullptr;
  for (const WeightRule& rule : rules)
    // Among rules of equal precedence, the last one applies.
    if (concerns(rule, group, layer) && (!found || precedence(rule) >= precedence(*found)))
      found = &rule;
  return found;
}

WeightForm WeightPolicy::form_of(WeightGroup group, int64_t layer) const {
  const WeightRule* rule = rule_of(group, layer);
  if (!rule) return FloatForm{};
  // With 4bit, only experts have 4 bits. The other groups have int8 with a scale per row, the
  // default of AffineForm.
  if (rule->four_bit && group != experts) return AffineForm{};
  return rule->form;
}

WeightForm WeightPolicy::form_of(WeightGroup group, const RoleTensor& tensor) const {
  const auto found = chosen.find(tensor);
  return found == chosen.end() ? form_of(group, tensor.layer) : found->second;
}

bool WeightPolicy::chooses_bits() const {
  return std::any_of(rules.begin(), rules.end(),
                     [](const WeightRule& rule) { return rule.bits.has_value(); });
}

std::vector<WeightForm> WeightPolicy::forms() const {
  std::vector<WeightForm> all;
  const auto add = [&](const WeightForm& form) {
    if (std::find(all.begin(), all.end(), form) == all.end()) all.push_back(form);
  };
  for (const WeightRule& rule : rules) {
    add(rule.form);
    // form_of() can return this form for groups other than experts.
    if (rule.four_bit) add(AffineForm{});
  }
  for (const auto& [tensor, form] : chosen) add(form);
  return all;
}

bool WeightPolicy::all_float() const {
  return std::all_of(rules.begin(), rules.end(),
                     [](const WeightRule& rule) { return is_float(rule.form); });
}

Result<WeightPolicy> parse_weight_policy(std::string_view text, const WeightForm& four_bits) {
  WeightPolicy policy;
  for (bool more = !text.empty(); more;) {
    const size_t comma = text.find(',');
    MOEC_ASSIGN(WeightRule rule, parse_item(text.substr(0, comma), four_bits));
    policy.rules.push_back(rule);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return policy;
}

std::string to_string(const WeightPolicy& policy) {
  if (policy.rules.empty()) return "float";
  std::vector<std::string> items;
  for (const WeightRule& rule : policy.rules) items.push_back(item_text(rule));
  return fmt::format("{}", fmt::join(items, ","));
}

Status check_weight_policy(const WeightPolicy& policy, int64_t layers, DType dtype) {
  for (const WeightRule& rule : policy.rules) {
    if (rule.layers && rule.layers->last >= layers)
      return fail(
          "weights.layers",
          fmt::format("--weights {}: the model has layers 0 to {}", item_text(rule), layers - 1),
          "use a range of these layers");
    const auto* kept = std::get_if<FloatForm>(&rule.form);
    // Float weights are stored in the element type of the shards, so other types are refused.
    if (kept && kept->dtype && *kept->dtype != dtype)
      return fail("weights.form",
                  fmt::format("--weights {}: float weights have the element type of the shards, "
                              "which is {}",
                              item_text(rule), dtype_name(dtype)),
                  fmt::format("use float, or pass --dtype {}", dtype_name(*kept->dtype)));
  }
  return {};
}

}  // namespace moec
