#include "ir/graph/op_set.h"

namespace moec {
namespace {

template <class OpT>
size_t function_of(const OpT& op) {
  if constexpr (requires { enum_names(op.fn); }) {
    static_assert(enum_count<decltype(op.fn)> <= OpSet::kFunctions);
    return static_cast<size_t>(op.fn);
  } else {
    return 0;
  }
}

}  // namespace

size_t OpSet::position(const OpData& data) {
  const size_t function = std::visit([](const auto& op) { return function_of(op); }, data);
  return data.index() * kFunctions + function;
}

std::optional<OpSet> OpSet::named(std::string_view name) {
  OpSet set;
  for (size_t kind = 0; kind < kOpKinds; ++kind)
    if (op_kind_name(static_cast<OpKind>(kind)) == name)
      for (size_t function = 0; function < kFunctions; ++function)
        set.bits_.set(kind * kFunctions + function);
  if (const auto op = parse_mnemonic(name)) set.bits_.set(position(*op));
  if (set.empty()) return std::nullopt;
  return set;
}

}  // namespace moec
