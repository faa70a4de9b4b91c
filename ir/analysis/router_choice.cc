#include "ir/analysis/router_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/base/at.h"
#include "ir/graph/rewriter.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr std::string_view kScope = "router", kMask = "_mask", kMix = "_first_weight";

// The spelling of a name in formats without dots.
std::string plain_name(std::string_view name) {
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '.', '_');
  return plain;
}

// True for a prefix such as "L03_", and for the empty text.
bool is_layer_prefix(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() < 3 || text.front() != 'L' || text.back() != '_') return false;
  return text.find_first_not_of("0123456789", 1) == text.size() - 1;
}

// Returns the router scope in a value's name, if the name ends with `suffix`.
std::optional<std::string> scope_of(const std::string& name, std::string_view suffix) {
  const std::string plain = plain_name(name);
  if (!plain.ends_with(suffix)) return std::nullopt;
  const auto scope = std::string_view(plain).substr(0, plain.size() - suffix.size());
  // A name without kScope before the suffix is another value, such as the mask of attention.
  if (!scope.ends_with(kScope)) return std::nullopt;
  if (!is_layer_prefix(scope.substr(0, scope.size() - kScope.size()))) return std::nullopt;
  return name.substr(0, scope.size());
}

// Transitive producers of the given values.
class Ancestors {
 public:
  Ancestors(const Shard& shard, const std::vector<ValueId>& of) : reached_(shard.values.size()) {
    for (const ValueId value : of) reached_[value] = 1;
    // Operands are defined before their users, so one backward pass reaches all producers.
    for (size_t i = shard.ops.size(); i-- > 0;) {
      const Op& op = shard.ops[OpId{static_cast<uint32_t>(i)}];
      if (has(op))
        for (const ValueId operand : op.operands) reached_[operand] = 1;
    }
  }

  bool has(ValueId value) const { return reached_[value] != 0; }
  bool has(const Op& op) const {
    return std::any_of(op.results.begin(), op.results.end(),
                       [&](ValueId result) { return reached_[result] != 0; });
  }

 private:
  IdMap<ValueId, uint8_t> reached_;
};

class ChoiceFinder {
 public:
  explicit ChoiceFinder(const Shard& shard) : shard_(shard) {
    for (uint32_t i = 0; i < shard.values.size(); ++i)
      if (const std::string& name = shard.values[ValueId{i}].name; !name.empty())
        // If two names have the same plain spelling, the first value is used.
        by_name_.try_emplace(plain_name(name), ValueId{i});
  }

  std::vector<RouterChoice> find() const {
    std::vector<RouterChoice> routers;
    for (uint32_t i = 0; i < shard_.values.size(); ++i) {
      const std::string& name = shard_.values[ValueId{i}].name;
      if (const auto scope = scope_of(name, kMask))
        routers.push_back(by_mask(*scope, ValueId{i}));
      else if (const auto mixed = scope_of(name, kMix))
        routers.push_back(by_logits(*mixed));
    }
    return routers;
  }

 private:
  ValueId named(const std::string& name) const {
    const auto found = by_name_.find(plain_name(name));
    return found == by_name_.end() ? ValueId{} : found->second;
  }

  // Values derived from the scores before selection.
  Ancestors before_choice(const std::string& scope, ValueId more) const {
    std::vector<ValueId> values;
    for (const ValueId value : {named(scope + "_choice_low"), more})
      if (value.valid()) values.push_back(value);
    return {shard_, values};
  }

  // The users of `score` that are in `after` (if it is not null) and not in `before`.
  ChoiceScores uses(ValueId score, const Ancestors* after, const Ancestors& before) const {
    ChoiceScores choice{score, {}};
    for (const OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (std::find(op.operands.begin(), op.operands.end(), score) == op.operands.end()) continue;
      if (before.has(op) || (after && !after->has(op))) continue;
      choice.users.push_back(id);
    }
    return choice;
  }

  // The mask is computed from the first of choice, scores and logits that is among its producers.
  RouterChoice by_mask(const std::string& scope, ValueId mask) const {
    const Ancestors to_mask(shard_, {mask});
    RouterChoice router{scope, {}};
    // The names are ordered from the last value before the selection to the first.
    for (const char* name : {"_choice", "_scores", ""}) {
      const ValueId score = named(scope + name);
      if (!score.valid() || !to_mask.has(score)) continue;
      router.scores.push_back(uses(score, &to_mask, before_choice(scope, {})));
      break;
    }
    if (const auto softmax = normalised_softmax(scope); softmax && !router.scores.empty())
      router.scores.push_back({named(scope), {*softmax}});
    return router;
  }

  // The softmax over all logits whose chosen shares are divided by their sum. In exact arithmetic,
  // logits of experts that cannot be chosen have no effect on the weights. Clamping these logits
  // removes their effect on the rounding, too.
  std::optional<OpId> normalised_softmax(const std::string& scope) const {
    const ValueId logits = named(scope), scores = named(scope + "_scores"),
                  total = named(scope + "_total");
    if (!logits.valid() || !scores.valid() || !total.valid()) return std::nullopt;
    const OpId producer = shard_.values[scores].producer;
    if (!producer.valid() || !std::holds_alternative<Softmax>(shard_.ops[producer].data) ||
        shard_.ops[producer].operands.front() != logits)
      return std::nullopt;
    for (const Op& op : shard_.ops) {
      const auto* sum = std::get_if<Binary>(&op.data);
      // With a term next to the sum, the shares no longer add up to one.
      if (sum && (sum->fn == BinaryFn::add || sum->fn == BinaryFn::max) &&
          std::find(op.operands.begin(), op.operands.end(), total) != op.operands.end())
        return std::nullopt;
    }
    return producer;
  }

  // With sparsemixer, every value that is computed from the logits considers only experts that can
  // be chosen.
  RouterChoice by_logits(const std::string& scope) const {
    RouterChoice router{scope, {}};
    const ValueId choice = named(scope + "_choice"), logits = named(scope);
    if (choice.valid()) router.scores.push_back(uses(choice, nullptr, before_choice(scope, {})));
    if (logits.valid())
      router.scores.push_back(uses(logits, nullptr, before_choice(scope, choice)));
    return router;
  }

  const Shard& shard_;
  std::map<std::string, ValueId> by_name_;  // by plain_name()
};

// Copies a shard and clamps each value of scores right after its definition.
class CeilingWriter {
 public:
  explicit CeilingWriter(const Shard& shard) : shard_(shard), rewriter_(shard) {}

  Shard write(std::span<const RouterChoice> routers, const CeilingMaker& make) {
    for (const RouterChoice& router : routers)
      if (const ValueId ceiling = make(rewriter_.build(), router); ceiling.valid())
        for (const ChoiceScores& scores : router.scores)
          limits_.push_back({&scores, router.scope + ".limited", ceiling, {}});
    // Inputs are defined before all ops, so their limits must precede the first op.
    for (const ValueId input : shard_.inputs) limit(input);
    for (const OpId id : op_ids(shard_)) {
      rewriter_.copy_as(id, shard_.ops[id].data, operands(id));
      for (const ValueId result : shard_.ops[id].results) limit(result);
    }
    return rewriter_.finish();
  }

 private:
  struct Limit {
    const ChoiceScores* scores;
    std::string name;
    ValueId ceiling, limited;
  };

  void limit(ValueId value) {
    for (Limit& limit : limits_)
      if (limit.scores->value == value)
        limit.limited =
            rewriter_.build().binary(BinaryFn::min, rewriter_(value), limit.ceiling, limit.name);
  }

  std::vector<ValueId> operands(OpId user) const {
    std::vector<ValueId> operands = rewriter_(shard_.ops[user].operands);
    // The ceiling applies only to the selection. Other users, such as the routing weights, need the
    // scores themselves.
    for (const Limit& limit : limits_) {
      const auto& [value, users] = *limit.scores;
      // `users` ascends, because uses() visits the ops in order.
      if (!std::binary_search(users.begin(), users.end(), user)) continue;
      for (size_t i = 0; i < operands.size(); ++i)
        if (shard_.ops[user].operands[i] == value) operands[i] = limit.limited;
    }
    return operands;
  }

  const Shard& shard_;
  Rewriter rewriter_;
  std::vector<Limit> limits_;
};

}  // namespace

Result<std::vector<RouterChoice>> find_choices(const Shard& shard, size_t routers) {
  std::vector<RouterChoice> found = ChoiceFinder(shard).find();
  const auto is_known = [](const RouterChoice& router) { return !router.scores.empty(); };
  const auto known = static_cast<size_t>(std::count_if(found.begin(), found.end(), is_known));
  if (known == routers && found.size() == routers) return found;
  return fail("router.no_choice",
              fmt::format("value names identify the choice of {} of {} routers", known, routers),
              "export again with this version of moec, an exact --routing and no --skip-pass",
              {.shard = shard.name});
}

Type ceiling_type(const Shard& shard, const RouterChoice& router) {
  const Type& scores = shard.type(router.scores.front().value);
  // The ceiling has one number per channel and is broadcast over tokens.
  Dims dims(static_cast<size_t>(scores.rank()), 1);
  dims.at(kChannelAxis) = scores.dims.at(kChannelAxis);
  return {scores.dtype, dims};
}

std::string ceiling_name(const RouterChoice& router) { return router.scope + ".ceiling"; }

std::vector<double> choice_ceilings(DType dtype, int64_t slots, const std::vector<int64_t>& kept) {
  const double none = largest_finite(dtype);
  // lower_router sets knocked-out scores to -none / 2. The sum of two ceilings must be greater.
  const double lowest = round_to(dtype, static_cast<float>(-none * 3 / 16));
  std::vector<double> ceilings(static_cast<size_t>(slots), lowest);
  for (const int64_t slot : kept) at(ceilings, slot) = none;
  return ceilings;
}

Shard with_ceilings(const Shard& shard, std::span<const RouterChoice> routers,
                    const CeilingMaker& make) {
  return CeilingWriter(shard).write(routers, make);
}

}  // namespace moec
