#include "frontends/checkpoint/config_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "frontends/sources/hf/infinities.h"
#include "ir/base/report_json.h"

namespace moec {

using nlohmann::ordered_json;

ordered_json config_json(const std::string& text) {
  // JSON has no infinity, but Python writes it in configs.
  return ordered_json::parse(with_infinities(text), nullptr, false);
}

std::string config_text(const ordered_json& config) {
  constexpr std::string_view kString = "\"inf\"";
  std::string text = json_text(config) + "\n";
  // Python reads the bare word, and not the string, as a number.
  for (size_t at = text.find(kString); at != std::string::npos; at = text.find(kString, at))
    text.replace(at, kString.size(), "Infinity");
  return text;
}

std::string last_component(const std::string& path) {
  // A path that ends with a slash has no file name, so one is added and the parent is taken.
  const std::filesystem::path folder = std::filesystem::path(path + "/").lexically_normal();
  return folder.parent_path().filename().string();
}

Status set_number(const HfConfig& config, const std::string& concept_name, int64_t value,
                  const std::string& code, ordered_json& json) {
  const ConceptRule& rule = config.family->concepts.at(concept_name);
  bool found = false;
  for (const std::string& key : rule.keys) {
    // A dotted name addresses an object inside the config.
    if (key.find('.') != std::string::npos)
      return fail(code, fmt::format("the key {} is nested in an object", key),
                  "use a checkpoint of another family");
    if (!json.contains(key)) continue;
    // Some configs list a number per part of the model; no single number replaces such a list.
    if (!json[key].is_number() && !json[key].is_null())
      return fail(code, fmt::format("the key {} is not a number", key),
                  "use a checkpoint of another family");
    json[key] = value;
    found = true;
  }
  if (!found && !rule.keys.empty()) json[rule.keys.front()] = value;
  return {};
}

}  // namespace moec
