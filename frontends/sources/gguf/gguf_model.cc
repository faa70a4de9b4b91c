#include "frontends/sources/gguf/gguf_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace moec {
namespace {

Result<bool> fits(const GgufFamily& family, const GgufArchitecture& architecture,
                  const GgufValues& values) {
  // All conditions must hold. A family without conditions fits every file of the architecture.
  for (const auto& [name, wanted] : family.when) {
    const std::string key = architecture.name + "." + name;
    if (!values.has(key)) return false;
    if (!wanted) continue;
    MOEC_ASSIGN(const uint32_t found, values.get<uint32_t>(key));
    if (found != *wanted) return false;
  }
  return true;
}

Status check_only(const GgufFamily& family, const GgufArchitecture& architecture,
                  const GgufValues& values) {
  for (const auto& [name, accepted] : family.only) {
    const std::string key = architecture.name + "." + name;
    MOEC_ASSIGN(const auto found, values.find<uint32_t>(key));
    // An absent key is accepted: it means the default of llama.cpp.
    if (!found || std::find(accepted.begin(), accepted.end(), *found) != accepted.end()) continue;
    return fail("gguf.family",
                fmt::format("{} is {}, which llama.cpp computes differently from the family {}, so "
                            "the file contains another model",
                            key, *found, family.family),
                "use the Hugging Face checkpoint of the model", {.file = values.file()});
  }
  return {};
}

tl::unexpected<Diagnostics> no_family(const GgufArchitecture& architecture,
                                      const GgufValues& values) {
  std::set<std::string> keys;  // several families can have the same conditions
  for (const GgufFamily& family : architecture.families)
    for (const auto& [name, wanted] : family.when)
      keys.insert(fmt::format("{}.{} {}", architecture.name, name,
                              wanted ? std::to_string(*wanted) : "with any value"));
  return fail(
      "gguf.family", fmt::format("the keys match no family: expected {}", fmt::join(keys, " or ")),
      "convert the model again with a converter that writes the key", {.file = values.file()});
}

}  // namespace

const GgufTensor* GgufModel::find(std::string_view tensor) const {
  const auto found = std::find_if(file.tensors.begin(), file.tensors.end(),
                                  [&](const GgufTensor& each) { return each.name == tensor; });
  return found == file.tensors.end() ? nullptr : &*found;
}

Result<std::optional<float>> GgufModel::number(std::string_view name) const {
  MOEC_ASSIGN(const auto value, file.values.find<float>(key(name)));
  // JSON, in which the config is generated, has neither NaN nor infinity.
  if (!value || std::isfinite(*value)) return value;
  return fail("gguf.value", fmt::format("{} is {}", key(name), *value),
              "download the damaged file again", {.file = file.values.file()});
}

Result<std::vector<int64_t>> GgufModel::integers(std::string_view name) const {
  const GgufKeys& keys = file.values.keys();
  const auto found = keys.find(key(name));
  if (found != keys.end() && found->second.type == GgufType::i32) {
    MOEC_ASSIGN(const auto numbers, file.values.get_array<int32_t>(key(name)));
    return std::vector<int64_t>(numbers.begin(), numbers.end());
  }
  MOEC_ASSIGN(const auto numbers, file.values.get_array<uint32_t>(key(name)));
  return std::vector<int64_t>(numbers.begin(), numbers.end());
}

Result<GgufModel> identify(const Gguf& file) {
  MOEC_ASSIGN(const std::string_view name,
              file.values.get<std::string_view>("general.architecture"));
  auto found = find_gguf_architecture(name);
  if (!found) {
    // find_gguf_architecture() does not know the file, so its error gets the place here.
    found.error().front().place.file = file.values.file();
    return fail(std::move(found.error()));
  }
  const GgufArchitecture& architecture = **found;
  // The first fitting family is chosen, so the order in the architecture's file matters.
  for (const GgufFamily& family : architecture.families) {
    MOEC_ASSIGN(const bool chosen, fits(family, architecture, file.values));
    if (!chosen) continue;
    MOEC_TRY(check_only(family, architecture, file.values));
    MOEC_ASSIGN(const Family* described, find_family(family.family));
    return GgufModel{file, architecture, *described};
  }
  return no_family(architecture, file.values);
}

}  // namespace moec
