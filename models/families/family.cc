#include "models/families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "embedded/embedded_families.h"
#include "ir/base/invariant.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

struct BuiltIn {
  std::vector<Family> families;         // sorted by model_type
  std::vector<std::string_view> texts;  // per family
};

BuiltIn load_embedded() {
  // The map sorts by model_type, because the order of file names can differ.
  std::map<std::string, std::pair<Family, std::string_view>> by_type;
  for (const EmbeddedFile& file : embedded_families) {
    if (file.name == "common.json") continue;
    Result<Family> family = load_family(file.text, std::string(file.name));
    MOEC_CHECK(family.has_value(), "built-in family: {}", render(family.error()));
    const std::string type = family->model_type;
    by_type.emplace(type, std::pair(std::move(*family), file.text));
  }
  BuiltIn built_in;
  for (auto& [type, found] : by_type) {
    built_in.families.push_back(std::move(found.first));
    built_in.texts.push_back(found.second);
  }
  return built_in;
}

const BuiltIn& built_in() {
  // Loaded on first use. The initialization of a local static is thread-safe.
  static const BuiltIn families = load_embedded();
  return families;
}

}  // namespace

std::span<const Family> known_families() { return built_in().families; }

Result<std::string_view> family_text(std::string_view model_type) {
  const std::vector<Family>& families = built_in().families;
  for (size_t i = 0; i < families.size(); ++i)
    if (family_for(families[i], model_type) != nullptr) return built_in().texts[i];
  // find_family() searches the same families, so it fails, too.
  return fail(find_family(model_type).error());
}

bool describes(const Family& family, std::string_view model_type) {
  return family.model_type == model_type ||
         std::find(family.also.begin(), family.also.end(), model_type) != family.also.end();
}

const Family* family_for(const Family& family, std::string_view model_type) {
  if (describes(family, model_type)) return &family;
  if (family.outer && family.outer->model_type == model_type) return &family;
  for (const Family& nested : family.nested)
    // Nested families always have an outer model (read_one()).
    if (nested.outer->model_type == model_type) return &nested;
  return nullptr;
}

void ignore_keys(std::span<const std::string> keys, Family& family) {
  family.rules.ignored.insert(keys.begin(), keys.end());
  // A larger model's config has separate rules for its keys.
  if (family.outer) family.outer->rules.ignored.insert(keys.begin(), keys.end());
  for (Family& nested : family.nested) ignore_keys(keys, nested);
}

Result<const Family*> find_family(std::string_view model_type) {
  std::vector<std::string_view> names;
  for (const Family& family : known_families()) {
    if (const Family* found = family_for(family, model_type)) return found;
    names.push_back(family.model_type);
    for (const Family& nested : family.nested) names.push_back(nested.outer->model_type);
  }
  if (const auto why = why_unsupported(model_type))
    return fail("hf.family.unsupported",
                fmt::format("the family \"{}\" is not supported: {}", model_type, *why),
                "see the README for the supported families");
  return fail("hf.family.unknown",
              fmt::format("unknown model_type \"{}\"{}; known families: {}", printable(model_type),
                          did_you_mean(model_type, names), fmt::join(names, ", ")),
              "write a descriptor as in models/families/README.md and pass --family-file");
}

}  // namespace moec
