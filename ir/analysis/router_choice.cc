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

// Names as files without dots have them.
std::string plain_name(std::string_view name) {
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '.', '_');
  return plain;
}

// "L03_" or nothing.
bool is_layer_prefix(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() < 3 || text.front() != 'L' || text.back() != '_') return false;
  return text.find_first_not_of("0123456789", 1) == text.size() - 1;
}

// The scope of the router whose value this is, if it is the value that `suffix` names.
std::optional<std::string> scope_of(const std::string& name, std::string_view suffix) {
  const std::string plain = plain_name(name);
  if (!plain.ends_with(suffix)) return std::nullopt;
  const auto scope = std::string_view(plain).substr(0, plain.size() - suffix.size());
  if (!scope.ends_with(kScope)) return std::nullopt;
  if (!is_layer_prefix(scope.substr(0, scope.size() - kScope.size()))) return std::nullopt;
  return name.substr(0, scope.size());
}

// Whether values, and the ops that make them, lie on a way to given values.
class Ancestors {
 public:
  Ancestors(const Shard& shard, const std::vector<ValueId>& of) : reached_(shard.values.size()) {
    for (const ValueId value : of) reached_[value] = 1;
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

  // What is computed of the scores before the choice begins.
  Ancestors before_choice(const std::string& scope, ValueId more) const {
    std::vector<ValueId> values;
    for (const ValueId value : {named(scope + "_choice_low"), more})
      if (value.valid()) values.push_back(value);
    return {shard_, values};
  }

  // The ops that take `score` on the way to what `after` reaches.
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

  // Experts are chosen by the first of choice, scores and logits from which the mask follows.
  RouterChoice by_mask(const std::string& scope, ValueId mask) const {
    const Ancestors to_mask(shard_, {mask});
    RouterChoice router{scope, {}};
    for (const char* name : {"_choice", "_scores", ""}) {
      const ValueId score = named(scope + name);
      if (!score.valid() || !to_mask.has(score)) continue;
      router.scores.push_back(uses(score, &to_mask, before_choice(scope, {})));
      break;
    }
    return router;
  }

  // With sparsemixer, all that follows from the logits is of those that can be chosen.
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

// Copies a shard, and limits scores as soon as they are there.
class CeilingWriter {
 public:
  explicit CeilingWriter(const Shard& shard) : shard_(shard), rewriter_(shard) {}

  Shard write(std::span<const RouterChoice> routers, const CeilingMaker& make) {
    for (const RouterChoice& router : routers)
      if (const ValueId ceiling = make(rewriter_.build(), router); ceiling.valid())
        for (const ChoiceScores& scores : router.scores)
          limits_.push_back({&scores, router.scope + ".limited", ceiling, {}});
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
    for (const Limit& limit : limits_) {
      const auto& [value, users] = *limit.scores;
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
              fmt::format("{} of {} routers have values by whose names it is known where they "
                          "choose experts",
                          known, routers),
              "export again with this moec, an exact --routing and without --skip-pass",
              {.shard = shard.name});
}

Type ceiling_type(const Shard& shard, const RouterChoice& router) {
  const Type& scores = shard.type(router.scores.front().value);
  Dims dims(static_cast<size_t>(scores.rank()), 1);
  dims.at(kChannelAxis) = scores.dims.at(kChannelAxis);
  return {scores.dtype, dims};
}

std::string ceiling_name(const RouterChoice& router) { return router.scope + ".ceiling"; }

std::vector<double> choice_ceilings(DType dtype, int64_t slots, const std::vector<int64_t>& kept) {
  const double none = largest_finite(dtype);
  // What is knocked out has -none / 2: the sum of two of these is above it.
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
