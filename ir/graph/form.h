// The form of a shard states which ops it may hold. Each pass declares the form that it takes and
// the one that it returns, so the order of passes can be checked: model → lowered → static →
// placed.
//   model    as a shard builder wrote it, with composites
//   lowered  without composites; projections are still `linear`
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
