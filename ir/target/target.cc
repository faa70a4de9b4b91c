#include "ir/target/target.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {

namespace {

// Returns 0 for ops without a function, which use only the first position of their kind.
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
  // The name of a kind, such as `binary`, selects all of its functions.
  for (size_t kind = 0; kind < kOpKinds; ++kind)
    if (traits_of(static_cast<OpKind>(kind)).name == name)
      for (size_t function = 0; function < kFunctions; ++function)
        set.bits_.set(kind * kFunctions + function);
  if (const auto op = parse_mnemonic(name)) set.bits_.set(position(*op));
  if (set.empty()) return std::nullopt;
  return set;
}

namespace {

template <class T>
bool contain(const std::vector<T>& items, const T& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

// A `limit` of 0 means no limit.
void lower(int64_t& limit, int64_t found) { limit = limit == 0 ? found : std::min(limit, found); }

// A rule without axes concerns all axes.
bool looks_at(const TargetRule& rule, Axis axis) {
  return rule.axes.empty() || contain(rule.axes, axis);
}

// Lists families with their chips, such as "a13 (m1), a14 (m2)".
std::string list_chips(const std::vector<ChipFamily>& families) {
  std::vector<std::string> words;
  for (const ChipFamily& family : families)
    words.push_back(family.chips.empty()
                        ? family.name
                        : fmt::format("{} ({})", family.name, fmt::join(family.chips, ", ")));
  return fmt::format("{}", fmt::join(words, ", "));
}

void forbid_ops(TargetLimits& limits, const OpSet& ops) {
  limits.no_casts |= ops.contains(Cast{});
  limits.no_reciprocals |= ops.contains(Unary{UnaryFn::reciprocal});
}

void replace_forms(TargetLimits& limits, const TargetRule& rule) {
  // Ops are replaced only for rules of severity error.
  if (rule.severity != Severity::error) return;
  limits.guarded |= rule.condition == RuleCondition::fused_activation;
  if (rule.condition == RuleCondition::exp_below) lower(limits.exp_below, rule.limit);
  if (rule.condition == RuleCondition::narrow_slice)
    // A rule concerns slices up to its limit, so the largest limit covers all rules.
    limits.narrow_slice = std::max(limits.narrow_slice, rule.limit);
}

}  // namespace

Axis axis_at(size_t rank, size_t index) {
  // The axis of a vector is its channels. Other ranks below 4 lack the leading axes of kFour.
  if (rank == 1) return Axis::channels;
  constexpr std::array<Axis, 4> kFour = {Axis::batch, Axis::channels, Axis::height, Axis::width};
  constexpr std::array<Axis, 5> kFive = {Axis::batch, Axis::channels, Axis::depth, Axis::height,
                                         Axis::width};
  return rank == kFive.size() ? kFive[index] : kFour[kFour.size() - rank + index];
}

TargetLimits derive_limits(const std::vector<TargetRule>& rules) {
  TargetLimits limits;
  for (const TargetRule& rule : rules) {
    if (rule.condition == RuleCondition::operands_above) lower(limits.fan_in, rule.limit);
    if (rule.condition == RuleCondition::op_is && rule.severity == Severity::error)
      forbid_ops(limits, rule.ops);
    replace_forms(limits, rule);
    // A rule that names ops does not limit the values of other ops.
    if (rule.condition != RuleCondition::extent_above || rule.severity != Severity::error ||
        !rule.ops.empty())
      continue;
    if (looks_at(rule, Axis::channels)) lower(limits.channels, rule.limit);
    if (looks_at(rule, Axis::height) || looks_at(rule, Axis::width))
      lower(limits.extent, rule.limit);
  }
  return limits;
}

Result<Target> for_chip(Target target, std::string_view chip) {
  const std::string wanted(chip);
  const auto family =
      std::find_if(target.chips.begin(), target.chips.end(), [&](const ChipFamily& candidate) {
        return candidate.name == wanted || contain(candidate.chips, wanted);
      });
  if (family == target.chips.end())
    return fail("target.unknown_chip",
                fmt::format("target {} has no chip \"{}\"", target.name, chip),
                target.chips.empty() ? "omit --chip: the rules are the same for every device"
                                     : "use one of " + list_chips(target.chips));
  // A rule without chips applies to every chip.
  std::erase_if(target.rules, [&](const TargetRule& rule) {
    return !rule.chips.empty() && !contain(rule.chips, family->name);
  });
  // derive_limits() must consider only the rules that remain for this chip.
  target.limits = derive_limits(target.rules);
  return target;
}

}  // namespace moec
