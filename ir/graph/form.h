// Forms make pass order checked data: model → lowered → static → placed.
//   model    composites as a shard builder wrote them
//   lowered  composites are gone; projections are still `linear`
//   static   only conv, matmul, elementwise, reduce, softmax, top-k, weights and shape ops remain
//   placed   static, and every op has been accepted by the target's rules
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moec {

enum class Form : uint8_t { model, lowered, static_ops, placed };

std::string_view form_name(Form form);  // "model", "lowered", "static", "placed"
std::optional<Form> parse_form(std::string_view name);

}  // namespace moec
