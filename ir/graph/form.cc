#include "ir/graph/form.h"

#include <array>

#include "ir/base/at.h"

namespace moec {

static constexpr std::array<std::string_view, 4> kNames = {"model", "lowered", "static", "placed"};

std::string_view form_name(Form form) { return at(kNames, form); }

std::optional<Form> parse_form(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Form>(i);
  return std::nullopt;
}

}  // namespace moec
