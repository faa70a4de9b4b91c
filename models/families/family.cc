#include "models/families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "embedded/embedded_families.h"
#include "ir/base/invariant.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

std::vector<Family> load_embedded() {
  std::vector<Family> families;
  for (const EmbeddedFile& file : embedded_families) {
    if (file.name == "common.json") continue;
    Result<Family> family = load_family(file.text, std::string(file.name));
    MOEC_CHECK(family.has_value(), "built-in family: {}", render(family.error()));
    families.push_back(std::move(*family));
  }
  std::sort(families.begin(), families.end(),
            [](const Family& a, const Family& b) { return a.model_type < b.model_type; });
  return families;
}

}  // namespace

std::span<const Family> known_families() {
  static const std::vector<Family> families = load_embedded();
  return families;
}

bool describes(const Family& family, std::string_view model_type) {
  return family.model_type == model_type ||
         std::find(family.also.begin(), family.also.end(), model_type) != family.also.end();
}

const Family* family_for(const Family& family, std::string_view model_type) {
  if (describes(family, model_type)) return &family;
  for (const Family& nested : family.nested)
    if (nested.outer->model_type == model_type) return &nested;
  return nullptr;
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
                "The README lists the supported families.");
  return fail(
      "hf.family.unknown",
      fmt::format("unknown model_type \"{}\"{}; known families: {}", printable(model_type),
                  did_you_mean(model_type, names), fmt::join(names, ", ")),
      "Write a descriptor as in models/families/README.md, and pass it with --family-file.");
}

}  // namespace moec
