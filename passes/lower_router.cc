#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/composite_operands.h"
#include "ir/graph/scalar.h"
#include "passes/choose_top.h"
#include "passes/halves.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"
#include "passes/token_layout.h"

namespace moec {
namespace {

class RouterLowering {
 public:
  RouterLowering(Builder& b, const Router& op, const PassOptions& options,
                 const Halves& choice_bias)
      : b_(b),
        op_(op),
        form_(options.routing),
        most_channels_(options.target.limits.channels),
        choice_bias_(choice_bias) {}

  ValueId lower(ValueId logits) {
    choice_logits_ = {logits, {}};
    if (is_exact(form_) && b_.type(logits).dtype == DType::f16)
      choice_logits_ = logit_halves(b_, logits, logit_unit(), most_channels_);
    return scaled(renormalised(is_exact(form_) ? chosen(logits) : scores(logits)));
  }

 private:
  // The scores of all experts.
  ValueId scores(ValueId logits) {
    switch (op_.score) {
      case Score::sigmoid:
      case Score::sigmoid_selected:
        return b_.unary(UnaryFn::sigmoid, logits, "scores");
      case Score::softmax:
      case Score::softmax_selected:
      case Score::sparsemixer:
        break;
    }
    return b_.softmax(logits, kChannelAxis, "scores");
  }

  // The scores of the chosen experts; 0 for all others.
  ValueId chosen(ValueId logits) {
    switch (op_.score) {
      case Score::softmax:
      case Score::sigmoid: {
        ValueId all = scores(logits);
        return b_.mul(all, choose(named_choice(choice_scores(logits, all), {logits, all})),
                      "chosen");
      }
      case Score::softmax_selected:
        return softmax_of_chosen(logits, choose(choice_of_logits(logits)));
      case Score::sigmoid_selected: {
        ValueId mask = choose(choice_of_logits(logits));
        return b_.mul(scores(logits), mask, "chosen");
      }
      case Score::sparsemixer:
        break;
    }
    return mix_of_picks(logits);
  }

  Halves choice_of_logits(ValueId logits) {
    return named_choice(choice_scores(logits, logits), {logits});
  }

  // Names the selection scores, by which find_choices() recognizes them
  // (ir/analysis/router_choice.h). Values in `plain` already have names.
  Halves named_choice(const Halves& choice, std::initializer_list<ValueId> plain) {
    if (std::find(plain.begin(), plain.end(), choice.high) == plain.end())
      b_.rename(choice.high, b_.scoped("choice"));
    if (choice.low.valid()) b_.rename(choice.low, b_.scoped("choice_low"));
    return choice;
  }

  // Adding biases or scores requires unscaled scores.
  LogitUnit logit_unit() const {
    return choice_bias_.high.valid() || adds_scores() ? LogitUnit::one : LogitUnit::any;
  }

  // The selection scores. f16 rounds close scores to equal values. Experts are therefore chosen by
  // logits if that is equivalent, and otherwise by scores in two halves.
  Halves choice_scores(ValueId logits, ValueId scores) {
    if (b_.type(logits).dtype != DType::f16)
      return choice_bias_.high.valid() ? biased({scores, {}}) : Halves{scores, {}};
    const bool of_scores = scores_all_logits(op_.score);
    const bool biases = choice_bias_.high.valid();
    if (!of_scores || (!biases && !adds_scores()))
      return biases ? biased(choice_logits_) : choice_logits_;
    const Halves halves = score_halves(scores);
    if (biases) return biased(halves);
    return halves.low.valid() ? two_sum(b_, halves.high, halves.low) : halves;
  }

  // The scores, or scores minus 1/2, as halves that may overlap. The low half of a softmax is its
  // derivative, the score itself, times the low half of the logit.
  Halves score_halves(ValueId scores) {
    switch (op_.score) {
      case Score::sigmoid:
      case Score::sigmoid_selected:
        return centered_sigmoid(b_, choice_logits_);
      case Score::softmax:
      case Score::softmax_selected:
      case Score::sparsemixer:
        break;
    }
    if (!choice_logits_.low.valid()) return {scores, {}};
    ValueId high = b_.softmax(choice_logits_.high, kChannelAxis, "choice_scores");
    return {high, b_.mul(high, choice_logits_.low, "low_scores")};
  }

  // True if sums of scores are compared.
  bool adds_scores() const {
    return op_.groups_kept < op_.groups && experts_of_group_score(op_.group_score) > 1;
  }

  // Adds the bias, which affects only the choice (DeepSeek-V3's load balancing without auxiliary
  // loss); weights are computed from the scores without the bias.
  Halves biased(const Halves& scores) {
    const Type type = b_.type(scores.high);
    const Dims dims = channel_vector_dims(type.layout, channels_of(type));
    Halves bias{b_.reshape(choice_bias_.high, dims), {}};
    if (choice_bias_.low.valid()) bias.low = b_.reshape(choice_bias_.low, dims);
    if (type.dtype == DType::f16)
      return add_halves(b_, scores, {within(bias.high, kMaxHalfBias), bias.low});
    ValueId sum = b_.add(scores.high, bias.high, "biased");
    return {bias.low.valid() ? b_.add(sum, bias.low) : sum, {}};
  }

  ValueId within(ValueId x, double limit) {
    ValueId above = b_.binary(BinaryFn::max, x, b_.scalar_like(x, -limit));
    return b_.binary(BinaryFn::min, above, b_.scalar_like(x, limit));
  }

  // The mask of the chosen experts.
  ValueId choose(Halves scores) {
    if (op_.groups_kept < op_.groups) scores.high = knock_out_groups(scores);
    ValueId mask = choose_top(b_, form_, scores, op_.top_k);
    if (const std::string name = b_.scoped("mask"); b_.shard().values[mask].name != name)
      b_.rename(mask, name);
    return mask;
  }

  // Knocks out the scores of groups that are not kept: they become lower than all other scores.
  ValueId knock_out_groups(const Halves& scores) {
    Builder::NameScope scope(b_, "groups");
    const ChannelGrid grid(b_, scores.high);
    const int64_t size = channels_of(b_.type(scores.high)) / op_.groups;
    Halves by_group{grid.split(scores.high, op_.groups, size, "scores"), {}};
    if (scores.low.valid()) by_group.low = grid.split(scores.low, op_.groups, size, "low_scores");
    Halves of_group = group_score(grid, by_group, size);
    of_group.high = grid.join(of_group.high, "score");
    if (of_group.low.valid()) of_group.low = grid.join(of_group.low, "low_score");
    ValueId kept = choose_top(b_, form_, of_group, op_.groups_kept);
    return grid.join(kept_only(b_, by_group.high, grid.split(kept, op_.groups, 1)), "kept_scores");
  }

  // A group's score is its best score, or the sum of its two best. The second best is the maximum
  // after knocking out the first maximum, so that tied best scores count twice.
  Halves group_score(const ChannelGrid& grid, const Halves& by_group, int64_t size) {
    const int64_t axis = grid.inner_axis();
    const Halves best = largest(b_, by_group, axis, "best");
    if (experts_of_group_score(op_.group_score) == 1) return best;
    ValueId countdown = count_down(b_, b_.type(by_group.high).dtype, grid.constant_dims(1, size));
    ValueId first = first_largest(b_, by_group, axis, countdown);
    ValueId rest = without(b_, by_group.high, first, "rest");
    const Halves second = largest(b_, {rest, by_group.low}, axis, "second");
    if (by_group.low.valid()) return add_halves(b_, best, second);
    return {b_.add(best.high, second.high), {}};
  }

  // The softmax over the chosen logits only: exp() of a knocked-out logit is 0 in every element
  // type.
  ValueId softmax_of_chosen(ValueId logits, ValueId mask) {
    return b_.softmax(kept_only(b_, logits, mask, "chosen_logits"), kChannelAxis, "chosen");
  }

  // Sparsemixer, the routing of Phi-3.5-MoE at inference time: two successive picks, each weighted
  // by its probability in the softmax over the logits near it.
  ValueId mix_of_picks(ValueId logits) {
    named_choice(choice_logits_, {logits});
    ValueId picked = choose_pick(choice_logits_.high, "first");
    ValueId first = b_.mul(softmax_near(logits, logits, {}), picked, "first.weight");
    ValueId left = without(b_, logits, picked, "left");
    const bool plain = choice_logits_.high == logits;
    ValueId second_pick =
        choose_pick(plain ? left : without(b_, choice_logits_.high, picked), "second");
    ValueId second = b_.mul(softmax_near(logits, left, picked), second_pick, "second.weight");
    return b_.add(first, second, "chosen");
  }

  ValueId choose_pick(ValueId left, std::string name) {
    Builder::NameScope scope(b_, std::move(name));
    return choose_top(b_, form_, {left, choice_logits_.low}, 1);
  }

  // The softmax over the logits near the largest of `left`, without the pick `gone`, which may be
  // invalid. A logit z is far if (top − z) / max(|z|, top) > 2 eps. Since z <= top, max(|z|, top)
  // equals max(−z, top), which needs no abs. Multiplying by the divisor instead of dividing avoids
  // division by 0.
  ValueId softmax_near(ValueId logits, ValueId left, ValueId gone) {
    ValueId top = b_.reduce(ReduceFn::max, left, kChannelAxis, "top");
    ValueId negated = b_.sub(b_.scalar_like(logits, 0), logits);
    ValueId magnitude = b_.binary(BinaryFn::max, negated, top, "magnitude");
    ValueId reach = b_.mul(magnitude, b_.scalar_like(logits, 2 * op_.eps), "reach");
    ValueId far = b_.compare(CompareFn::less, reach, b_.sub(top, logits, "behind"));
    ValueId excluded = b_.cast(far, b_.type(logits).dtype, "far");
    if (gone.valid()) excluded = b_.binary(BinaryFn::max, excluded, gone, "excluded");
    return b_.softmax(without(b_, logits, excluded, "near_logits"), kChannelAxis, "near");
  }

  ValueId divisor(ValueId total) {
    switch (op_.renorm) {
      case Renorm::none:
      case Renorm::sum:
        break;
      case Renorm::sum_plus_eps:
        return b_.add(total, eps_like(total));
      case Renorm::max_eps:
        return b_.binary(BinaryFn::max, total, eps_like(total));
    }
    return total;
  }

  ValueId renormalised(ValueId weights) {
    if (op_.renorm == Renorm::none) return weights;
    const ValueId total = b_.reduce(ReduceFn::sum, weights, kChannelAxis, "total");
    return b_.div(weights, divisor(total), "renormalised");
  }

  // A positive eps that underflows in f16 becomes the smallest positive f16 number, so that the
  // divisor is not 0.
  ValueId eps_like(ValueId x) {
    constexpr double kSmallestF16 = 0x1p-24;
    const bool lost = op_.eps > 0 && round_to(b_.type(x).dtype, static_cast<float>(op_.eps)) == 0;
    return b_.scalar_like(x, lost ? kSmallestF16 : op_.eps);
  }

  ValueId scaled(ValueId weights) {
    if (op_.scale == 1) return weights;
    return b_.mul(weights, b_.scalar_like(weights, op_.scale));
  }

  // Bound for the halves of a bias, so that a selection score and the sum of two selection scores
  // are finite even if the bias is infinite.
  static constexpr double kMaxHalfBias = 8188;

  Builder& b_;
  const Router& op_;
  const RoutingForm form_;
  const int64_t most_channels_;  // of one value; 0: no limit
  const Halves choice_bias_;
  Halves choice_logits_;  // the logits, in f16 with their rounding error if it is known
};

Status check_count(const Shard& shard, const Op& op) {
  const Type& logits = shard.type(op.operands[0]);
  const int64_t most = exact_count(logits.dtype);
  if (channels_of(logits) <= most) return {};
  return fail("routing.too_many_experts",
              fmt::format("{} experts exceed the integers that {} represents exactly ({})",
                          channels_of(logits), dtype_name(logits.dtype), most),
              "route in f32, or pass --routing full_softmax (inexact)",
              {.shard = shard.name, .op = shard.label(op.results[0])});
}

Diagnostic inexact_note(const Shard& shard, const Op& op) {
  return {Severity::warning,
          "routing.inexact",
          "full_softmax weights all experts instead of the chosen ones",
          "pass another --routing for the model's exact results",
          {.shard = shard.name, .op = shard.label(op.results[0])}};
}

// The prefix of value names: "router", or "L03.router" if the op's name is "L03.routing_weights".
std::string router_scope(const Rewriter& rewriter, OpId id) {
  const std::string outer = outer_scope(rewriter, id);
  return outer.empty() ? "router" : outer + ".router";
}

}  // namespace

double max_selection_score(DType dtype) { return largest_finite(dtype) / 2; }

Result<Shard> lower_router(const Shard& shard, PassContext& context) {
  const RoutingForm form = context.options.routing;
  for (const Op& op : shard.ops) {
    if (!std::holds_alternative<Router>(op.data)) continue;
    if (is_exact(form))
      MOEC_TRY(check_count(shard, op));
    else
      context.notes.push_back(inexact_note(shard, op));
  }
  auto lower = [&](Builder& b, const Router& op, const std::vector<ValueId>& operands) {
    const auto [logits, high, low] = router_operands<ValueId>(operands);
    return std::vector<ValueId>{RouterLowering(b, op, context.options, {high, low}).lower(logits)};
  };
  return rewrite_each<Router>(shard, shard.form, router_scope, lower);
}

}  // namespace moec
