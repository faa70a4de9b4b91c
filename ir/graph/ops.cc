#include "ir/graph/ops.h"

#include <cstring>

namespace moec {
namespace {

constexpr auto kTraits = enum_table<OpKind, OpTraits>({
#define MOEC_OP(Struct, ...) op_traits<Struct>,
#include "ir/graph/ops.def"
});

template <class OpT>
concept HasState = requires(const OpT& op) {
  op.state;
};

#define MOEC_OP(Struct, name, last_form, group, effect, ...) \
  static_assert(HasState<Struct> == (Effect::effect >= Effect::reads), #name);
#include "ir/graph/ops.def"

template <class Fn, class OpT>
bool parse_function(std::string_view name, std::optional<OpData>& out) {
  auto fn = parse_enum<Fn>(name);
  if (fn) out = OpT{*fn};
  return fn.has_value();
}

// FNV-1a over the attributes in declaration order. Unlike std::hash, it returns the same value on
// every machine.
class Hasher {
 public:
  void bytes(const void* data, size_t size) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size; ++i) hash_ = (hash_ ^ at[i]) * 0x100000001b3u;
  }
  void operator()(std::string_view, int64_t value) { bytes(&value, sizeof value); }
  void operator()(std::string_view, double value) { bytes(&value, sizeof value); }
  void operator()(std::string_view, const std::string& value) { text(value); }
  void operator()(std::string_view, const Type& value) { text(to_string(value)); }
  void operator()(std::string_view, const WeightView& value) { text(to_string(value)); }
  void operator()(std::string_view, const Encoding& value) { text(to_string(value)); }
  void operator()(std::string_view, const std::vector<int64_t>& value) { text(to_string(value)); }
  void operator()(std::string_view, const std::vector<double>& value) {
    for (double v : value) bytes(&v, sizeof v);
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(std::string_view, E value) { bytes(&value, sizeof value); }
  void text(std::string_view value) {
    bytes(value.data(), value.size());
    // The terminator keeps the texts "ab", "c" and "a", "bc" apart.
    bytes("", 1);
  }
  uint64_t result() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace

const OpTraits& traits_of(OpKind kind) { return at(kTraits, kind); }

const std::string* state_of(const OpData& data) {
  return std::visit(
      []<class OpT>(const OpT& op) -> const std::string* {
        if constexpr (HasState<OpT>)
          return &op.state;
        else
          return nullptr;
      },
      data);
}

std::string_view mnemonic(const OpData& data) {
  return std::visit(
      [&](const auto& op) -> std::string_view {
        // Ops with a function are written as the function: `add` instead of `binary`.
        if constexpr (requires { op.fn; })
          return enum_name(op.fn);
        else
          return traits_of(data).name;
      },
      data);
}

std::optional<OpData> parse_mnemonic(std::string_view name) {
  std::optional<OpData> found;
  if (parse_function<UnaryFn, Unary>(name, found) ||
      parse_function<BinaryFn, Binary>(name, found) ||
      parse_function<CompareFn, Compare>(name, found))
    return found;
  // Axis 0 is a placeholder: the parser sets the attribute `axis` later.
  if (auto fn = parse_enum<ReduceFn>(name)) return Reduce{*fn, 0};
  static const std::pair<std::string_view, OpData> kPlain[] = {
#define MOEC_OP(Struct, name, ...) {#name, Struct{}},
#include "ir/graph/ops.def"
  };
  for (const auto& [plain_name, data] : kPlain) {
    // The kind of an op with a function, such as `binary`, is not a mnemonic.
    bool has_function = std::visit(
        [](const auto& op) {
          return requires { op.fn; };
        },
        data);
    if (plain_name == name && !has_function) return data;
  }
  return std::nullopt;
}

uint64_t hash_attributes(const OpData& data) {
  Hasher hasher;
  hasher.text(mnemonic(data));
  std::visit([&](const auto& op) { op.each_field(op, hasher); }, data);
  return hasher.result();
}

}  // namespace moec
