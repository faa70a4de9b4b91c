#include "frontends/sources/config/absent_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace moec {
namespace {

constexpr size_t kNamed = 4;  // maximum number of keys to list; the most likely causes come first

struct Bearing {
  std::string_view word;  // prefix of a role, or code of a finding
  std::vector<std::string_view> concepts;
};

// The first entry whose `word` is a prefix of the role applies.
const std::vector<Bearing>& bearings_on_roles() {
  static const std::vector<Bearing> bearings = {
      {"embed", {"vocab", "hidden"}},
      {"final_norm", {"hidden"}},
      {"lm_head", {"tied_head", "labels", "vocab", "hidden"}},
      {"q_a", {"q_rank", "hidden", "layers"}},
      {"q_b", {"q_rank", "heads", "key_dims", "head_dim", "layers"}},
      {"kv_a", {"kv_rank", "head_dim", "hidden", "layers"}},
      {"kv_b", {"kv_rank", "heads", "key_dims", "value_dims", "layers"}},
      {"q", {"heads", "head_dim", "q_rank", "key_dims", "hidden", "layers"}},
      {"k", {"kv_heads", "head_dim", "heads", "hidden", "layers"}},
      {"v", {"kv_heads", "head_dim", "heads", "hidden", "layers"}},
      {"o", {"heads", "head_dim", "value_dims", "hidden", "layers"}},
      {"sinks", {"heads", "layers"}},
      {"router", {"experts", "first_moe_layer", "router_hidden", "hidden", "layers"}},
      {"expert", {"experts", "expert_ff", "expert_latent", "first_moe_layer", "hidden", "layers"}},
      {"latent", {"expert_latent", "mlp_bias", "first_moe_layer", "hidden", "layers"}},
      {"shared", {"shared_experts", "shared_ff", "expert_ff", "first_moe_layer", "layers"}},
      {"gate", {"dense_ff", "first_moe_layer", "moe_step", "hidden", "layers"}},
      {"up", {"dense_ff", "first_moe_layer", "moe_step", "hidden", "layers"}},
      {"down", {"dense_ff", "first_moe_layer", "moe_step", "hidden", "layers"}},
      {"", {"hidden", "layers"}},
  };
  return bearings;
}

const std::vector<Bearing>& bearings_on_findings() {
  static const std::vector<Bearing> bearings = {
      {"model.groups", {"groups", "groups_kept", "experts"}},
      {"model.top_k", {"top_k", "groups", "groups_kept", "experts"}},
      {"model.heads", {"kv_heads", "heads"}},
      {"model.rope", {"head_dim", "max_positions"}},
      {"model.attention", {"window", "head_dim", "kv_heads", "max_positions"}},
  };
  return bearings;
}

// Returns the first key of a concept that has a default value; null if the value is from the
// config.
const std::string* absent_key(const FamilyReadings& readings, const ConceptReading& reading) {
  auto rule = readings.family.concepts.find(reading.name);
  const bool has_keys = rule != readings.family.concepts.end() && !rule->second.keys.empty();
  return reading.key.empty() && has_keys ? &rule->second.keys.front() : nullptr;
}

}  // namespace

std::string absent_keys_of_concepts(const FamilyReadings& readings,
                                    std::span<const std::string_view> concepts) {
  std::string text;
  size_t named = 0;
  for (const std::string_view name : concepts) {
    auto reading = std::find_if(readings.concepts.begin(), readings.concepts.end(),
                                [&](const ConceptReading& one) { return one.name == name; });
    // Concepts without a reading were never looked up, so they did not cause the finding.
    if (reading == readings.concepts.end() || named == kNamed) continue;
    const std::string* key = absent_key(readings, *reading);
    if (key == nullptr) continue;
    ++named;
    text += fmt::format("\"{}\" is missing and defaults to {}; ", *key, reading->value);
  }
  return text;
}

std::string absent_keys_of_role(const FamilyReadings& readings, std::string_view role) {
  for (const Bearing& bearing : bearings_on_roles())
    if (role.starts_with(bearing.word)) return absent_keys_of_concepts(readings, bearing.concepts);
  return {};
}

std::string absent_keys_of_finding(const FamilyReadings& readings, std::string_view code) {
  for (const Bearing& bearing : bearings_on_findings())
    if (code == bearing.word) return absent_keys_of_concepts(readings, bearing.concepts);
  return {};
}

}  // namespace moec
