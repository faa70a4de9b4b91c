// Forms make pass order checked data: model → lowered → static → placed.
//   model    composites as a shard builder wrote them
//   lowered  composites are gone; projections are still `linear`
//   static   only conv, matmul, elementwise, reduce, softmax, top-k, weights and shape ops remain
//   placed   static, and every op has been accepted by the target's rules
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/base/enum_table.h"

namespace moec {

enum class Form : uint8_t { model, lowered, static_ops, placed };

constexpr auto enum_names(Form) {
  return name_table<Form>({"model", "lowered", "static", "placed"});
}
constexpr std::string_view form_name(Form form) { return enum_name(form); }
constexpr std::optional<Form> parse_form(std::string_view name) { return parse_enum<Form>(name); }

}  // namespace moec
