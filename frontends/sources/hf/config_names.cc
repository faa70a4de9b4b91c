#include "frontends/sources/hf/config_names.h"

#include <algorithm>
#include <numeric>

#include "frontends/sources/hf/role_choices.h"
#include "frontends/sources/storage/read_storage.h"

namespace moec {
namespace {

// Numbers that replace a placeholder.
struct Numbered {
  std::string_view placeholder;
  std::vector<int64_t> numbers;
};

std::vector<int64_t> counted(int64_t first, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(std::max<int64_t>(0, count)));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::vector<int64_t> dense_layers(const ModelConfig& model) {
  std::vector<int64_t> layers;
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (!model.layers[i].moe) layers.push_back(static_cast<int64_t>(i));
  return layers;
}

// Expands patterns of the descriptor: a pattern with the placeholder becomes one copy per number;
// others are unchanged.
std::vector<std::string> spell_out(const std::vector<std::string>& patterns,
                                   const Numbered& numbered) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    const size_t at = pattern.find(numbered.placeholder);
    if (at == std::string::npos) {
      all.push_back(pattern);
      continue;
    }
    for (const int64_t number : numbered.numbers)
      all.push_back(
          std::string(pattern).replace(at, numbered.placeholder.size(), std::to_string(number)));
  }
  return all;
}

// Returns the patterns of tensors that the model does not use.
std::vector<std::string> ignored_patterns(ConfigReader& reader, const ModelConfig& model) {
  const Family& family = reader.family();
  const Numbered placeholders[] = {
      {kMtpLayer, counted(std::ssize(model.layers), reader.integer("mtp_layers"))},
      {kFurtherExpert, counted(model.moe.experts, reader.integer("further_experts"))},
      {kDenseLayer, dense_layers(model)}};
  std::vector<std::string> ignored;
  for (const auto& [pattern, why] : family.ignored_tensors) {
    // A pattern can have several placeholders, so the expansions are nested.
    std::vector<std::string> spelt = {pattern};
    for (const Numbered& numbered : placeholders) spelt = spell_out(spelt, numbered);
    ignored.insert(ignored.end(), spelt.begin(), spelt.end());
  }
  for (const std::string_view pattern : ignored_of(model.stored)) ignored.emplace_back(pattern);
  // Some files contain a copy of the tied matrix, which would be reported as unused.
  if (const auto head = family.tensors.find("lm_head");
      model.head.tied && head != family.tensors.end())
    ignored.insert(ignored.end(), head->second.begin(), head->second.end());
  return ignored;
}

}  // namespace

TensorNames read_names(ConfigReader& reader, const ModelConfig& model) {
  const Family& family = reader.family();
  TensorNames names;
  for (const auto& [role, templates] : family.tensors) names.by_role[role] = templates.front();
  // Assume the usual way to store matrices; resolve_names() later determines the actual one from
  // the files.
  for (const RoleChoice& choice : role_choices())
    if (names.has(choice.usual.front()))
      for (const std::string_view role : choice.other) names.by_role.erase(std::string(role));
  names.ignored = ignored_patterns(reader, model);
  return names;
}

}  // namespace moec
