#include "passes/choose_top.h"

#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"
#include "passes/passes.h"
#include "passes/token_layout.h"

namespace moec {
namespace {

int64_t product(const Dims& dims) { return Type{DType::f32, dims}.elements(); }

// 1 − [left < right], in left's element type. The form iterate uses only `less`, because its
// targets may lack other comparisons.
ValueId not_less(Builder& b, ValueId left, ValueId right, std::string name) {
  const DType dtype = b.type(left).dtype;
  ValueId less = b.cast(b.compare(CompareFn::less, left, right), dtype);
  return b.sub(b.scalar_like(left, 1), less, std::move(name));
}

// Returns 1 where the rival's score is larger, or equal with `among_equals` 1; else 0.
ValueId beats(Builder& b, ValueId rival, ValueId self, ValueId among_equals) {
  ValueId larger = b.cast(b.compare(CompareFn::greater, rival, self), b.type(self).dtype, "larger");
  return b.select(b.compare(CompareFn::equal, rival, self, "tied"), among_equals, larger);
}

// An expert is chosen if fewer than k rivals beat it. Rival j beats expert e if its score is
// larger, or equal with j < e. Selects use the index order for equal scores, so that exactly k
// experts are chosen for any ties.
ValueId rank_mask(Builder& b, const Halves& scores, int64_t k) {
  const ChannelGrid grid(b, scores.high);
  const int64_t count = channels_of(b.type(scores.high));
  const DType dtype = b.type(scores.high).dtype;
  const auto rivals = [&](ValueId x) { return grid.split(x, count, 1, "rival"); };
  const auto selves = [&](ValueId x) { return grid.split(x, 1, count); };
  ValueId rival = rivals(scores.high), self = selves(scores.high);
  ValueId rival_index = count_up(b, dtype, grid.constant_dims(count, 1));
  ValueId self_index = count_up(b, dtype, grid.constant_dims(1, count));
  ValueId wins = b.cast(b.compare(CompareFn::less, rival_index, self_index), dtype, "earlier");
  if (scores.low.valid()) wins = beats(b, rivals(scores.low), selves(scores.low), wins);
  wins = beats(b, rival, self, wins);
  ValueId rank = grid.join(b.reduce(ReduceFn::sum, wins, grid.outer_axis()), "rank");
  ValueId limit = b.scalar_like(rank, static_cast<double>(k));
  return b.cast(b.compare(CompareFn::less, rank, limit), dtype, "mask");
}

// Chooses the largest score k times, and knocks it out after each round but the last.
ValueId iterate_mask(Builder& b, const Halves& scores, int64_t k) {
  const Type type = b.type(scores.high);
  ValueId countdown =
      count_down(b, type.dtype, channel_vector_dims(type.layout, channels_of(type)));
  Halves left = scores;
  ValueId mask;
  for (int64_t round = 0; round < k; ++round) {
    Builder::NameScope scope(b, "round" + std::to_string(round));
    ValueId first = first_largest(b, left, kChannelAxis, countdown);
    mask = round == 0 ? first : b.add(mask, first, "mask");
    if (round + 1 < k) left.high = without(b, left.high, first, "left");
  }
  return mask;
}

// Subtracts the k-th largest high half. Scores near it become so small that adding the low half
// does not round it away.
ValueId from_least_chosen(Builder& b, const Halves& scores, int64_t k) {
  if (!scores.low.valid()) return scores.high;
  ValueId best = b.emit_all(TopK{k, kChannelAxis}, {scores.high}, "top_high_scores")[0];
  ValueId least = b.slice(best, kChannelAxis, k - 1, 1, "least");
  return b.add(b.sub(scores.high, least), scores.low, "from_least");
}

// Scatters the indices of the target's native top-k into a mask. The values of the top-k are not
// used: the mask selects scores, as in the other forms.
ValueId topk_mask(Builder& b, const Halves& halves, int64_t k) {
  ValueId scores = from_least_chosen(b, halves, k);
  const ChannelGrid grid(b, scores);
  const int64_t count = channels_of(b.type(scores));
  ValueId indices = b.emit_all(TopK{k, kChannelAxis}, {scores}, "top_scores")[1];
  ValueId channel = count_up(b, DType::i64, grid.constant_dims(1, count));
  ValueId hit = b.compare(CompareFn::equal, grid.split(indices, k, 1), channel, "hit");
  ValueId hits = b.cast(hit, b.type(scores).dtype);
  return grid.join(b.reduce(ReduceFn::sum, hits, grid.outer_axis()), "mask");
}

// Returns 1 where an element equals the largest along the axis.
ValueId hits_of_largest(Builder& b, const Halves& x, int64_t axis) {
  ValueId hit = not_less(b, x.high, b.reduce(ReduceFn::max, x.high, axis), "hit");
  if (!x.low.valid()) return hit;
  ValueId low = kept_only(b, x.low, hit, "hit_low");
  return not_less(b, low, b.reduce(ReduceFn::max, low, axis), "hit");
}

}  // namespace

ValueId choose_top(Builder& b, RoutingForm form, const Halves& scores, int64_t k) {
  switch (form) {
    case RoutingForm::rank:
    case RoutingForm::host:
      return rank_mask(b, scores, k);
    case RoutingForm::iterate:
      return iterate_mask(b, scores, k);
    case RoutingForm::topk:
    case RoutingForm::op:
      return topk_mask(b, scores, k);
    case RoutingForm::full_softmax:
      break;
  }
  MOEC_CHECK(false, "{} does not choose experts", enum_name(form));
  return scores.high;
}

Halves largest(Builder& b, const Halves& x, int64_t axis, const std::string& name) {
  Halves result{b.reduce(ReduceFn::max, x.high, axis, name), {}};
  if (!x.low.valid()) return result;
  ValueId low = kept_only(b, x.low, not_less(b, x.high, result.high, "hit"));
  result.low = b.reduce(ReduceFn::max, low, axis, name + "_low");
  return result;
}

// Several elements may equal the maximum. Multiplying by a descending count along the axis makes
// the first of these elements the unique maximum.
ValueId first_largest(Builder& b, const Halves& x, int64_t axis, ValueId countdown) {
  ValueId order = b.mul(hits_of_largest(b, x, axis), countdown);
  return not_less(b, order, b.reduce(ReduceFn::max, order, axis), "first");
}

ValueId kept_only(Builder& b, ValueId x, ValueId kept, std::string name) {
  ValueId half = b.sub(kept, b.scalar_like(kept, 0.5));
  return b.binary(BinaryFn::min, x, b.mul(half, b.scalar_like(x, largest_finite(b.type(x).dtype))),
                  std::move(name));
}

ValueId without(Builder& b, ValueId x, ValueId removed, std::string name) {
  ValueId half = b.sub(b.scalar_like(removed, 0.5), removed);
  return b.binary(BinaryFn::min, x, b.mul(half, b.scalar_like(x, largest_finite(b.type(x).dtype))),
                  std::move(name));
}

ValueId count_down(Builder& b, DType dtype, const Dims& dims) {
  std::vector<double> values;
  for (int64_t i = product(dims); i > 0; --i) values.push_back(static_cast<double>(i));
  return b.constant({dtype, dims}, std::move(values), "countdown");
}

ValueId count_up(Builder& b, DType dtype, const Dims& dims) {
  std::vector<double> values;
  for (int64_t i = 0; i < product(dims); ++i) values.push_back(static_cast<double>(i));
  return b.constant({dtype, dims}, std::move(values), "index");
}

// Floats with p bits of precision represent every integer up to 2^p: p is 11 for f16, 8 for bf16
// and 24 for f32.
int64_t exact_count(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 1 << 11;
    case DType::bf16:
      return 1 << 8;
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3:
      break;  // scores are f32, f16 or bf16 (router.c2)
  }
  return 1 << 24;
}

}  // namespace moec
