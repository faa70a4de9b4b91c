#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "ir/graph/rewriter.h"
#include "ir/target/target.h"
#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {

namespace {

// A size above a limit of the target.
struct ExcessSize {
  std::string_view what;  // subject of the message: the value, or an op on it
  int64_t size = 0;
  std::string_view unit;  // of the size: "channels"
  int64_t limit = 0;
};

// Error limit.unsplittable: a size cannot be reduced to a limit of the target. `next_step` names
// flags that reduce the size.
tl::unexpected<Diagnostics> unsplittable(const Shard& shard, ValueId value,
                                         const ExcessSize& excess, const Target& target,
                                         std::string next_step) {
  return fail("limit.unsplittable",
              fmt::format("{} has {} {} and cannot be split, target {} supports {}", excess.what,
                          excess.size, excess.unit, target.name, excess.limit),
              std::move(next_step), {.shard = shard.name, .op = shard.label(value)});
}

// A range of channels: one part of a value.
struct Run {
  int64_t begin, size;
};

class ChannelSplitter {
 public:
  ChannelSplitter(const Shard& shard, const Target& target)
      : shard_(shard), target_(target), rewriter_(shard), b_(rewriter_.build()) {}

  Result<Shard> rewrite() {
    for (ValueId input : shard_.inputs)
      if (is_wide(input)) return fail_at(input, "an input");
    for (OpId id : op_ids(shard_)) MOEC_TRY(rewrite_op(id));
    for (const Output& output : shard_.outputs)
      if (is_wide(output.value)) return fail_at(output.value, "an output");
    return rewriter_.finish();
  }

 private:
  // Only token tensors have a channel axis to split; weights are split together with their
  // convolutions.
  bool is_wide(ValueId old) const {
    const Type& type = shard_.type(old);
    return type.layout != Layout::plain && channels_of(type) > target_.limits.channels;
  }

  // Run sizes differ by at most one channel and depend on the number of channels only, so that the
  // parts of all operands of an elementwise op match.
  std::vector<Run> runs_of(ValueId old) const {
    const int64_t channels = channels_of(shard_.type(old)), most = target_.limits.channels;
    const int64_t count = (channels + most - 1) / most;
    std::vector<Run> runs;
    for (int64_t i = 0, begin = 0; i < count; ++i) {
      runs.push_back({begin, (channels - begin) / (count - i)});
      begin += runs.back().size;
    }
    return runs;
  }

  Status rewrite_op(OpId id) {
    const Op& op = shard_.ops[id];
    bool wide = false;
    for (ValueId value : op.operands) wide |= is_wide(value);
    for (ValueId value : op.results) wide |= is_wide(value);
    if (!wide) {
      rewriter_.copy(id);
      return {};
    }
    Builder::NameScope scope(b_, rewriter_.scope_name(id));
    return std::visit([&](const auto& data) { return split(id, data); }, op.data);
  }

  Status split(OpId id, const Conv& conv) { return split_conv(id, conv); }
  Status split(OpId id, const Slice& slice) { return split_slice(id, slice); }
  Status split(OpId id, const InGroup<OpGroup::elementwise> auto& data) {
    return split_elementwise(id, data);
  }
  // Ops that cannot be computed per run.
  Status split(OpId id, const OneOf<MatMul, Moe, Concat, Reshape, Transpose> auto&) {
    return unsplittable_op(id);
  }
  Status split(OpId id, const InGroup<OpGroup::composite, OpGroup::source, OpGroup::along_axis,
                                      OpGroup::state> auto&) {
    return unsplittable_op(id);
  }

  // Slices split the weights. fold_weight_views turns the slices into view steps, so that the
  // emitted file stores the parts and slices nothing at run time.
  Status split_conv(OpId id, const Conv& conv) {
    const Op& op = shard_.ops[id];
    if (conv.groups != 1) return unsplittable_op(id);
    std::vector<ValueId> results;
    for (const Run& run : runs_of(op.results[0])) results.push_back(conv_part(op, run));
    define(id, std::move(results));
    return {};
  }

  // Computes one run of outputs: the sum of the convolutions over the parts of the input. Only the
  // first convolution adds the bias.
  ValueId conv_part(const Op& op, const Run& outputs) {
    ValueId w = cut(rewriter_(op.operands[1]), 0, outputs);
    std::vector<ValueId> terms;
    const std::vector<Run> inputs = runs_of(op.operands[0]);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<ValueId> operands = {part(op.operands[0], i), cut(w, 1, inputs[i])};
      if (op.operands.size() == 3 && i == 0)
        operands.push_back(cut(rewriter_(op.operands[2]), 0, outputs));
      terms.push_back(b_.emit(Conv{}, operands));
    }
    return sum_terms(b_, std::move(terms), target_.sum);
  }

  template <class OpT>
  Status split_elementwise(OpId id, const OpT& data) {
    const Op& op = shard_.ops[id];
    const std::vector<Run> runs = runs_of(op.results[0]);
    std::vector<ValueId> results;
    for (size_t i = 0; i < runs.size(); ++i) {
      std::vector<ValueId> operands;
      for (ValueId operand : op.operands)
        operands.push_back(is_wide(operand) ? part(operand, i)
                                            : broadcast_part(operand, op.results[0], runs[i]));
      results.push_back(b_.emit(data, operands));
    }
    define(id, std::move(results));
    return {};
  }

  // The part of an operand that broadcasts to one run of the result. An operand with all channels,
  // such as a norm weight, is sliced; an operand with a single channel is used as is.
  ValueId broadcast_part(ValueId operand, ValueId result, const Run& run) {
    const Type &type = shard_.type(operand), &whole = shard_.type(result);
    ValueId value = rewriter_(operand);
    const bool all =
        type.rank() == whole.rank() && type.dims.at(kChannelAxis) == whole.dims.at(kChannelAxis);
    return all ? b_.slice(value, kChannelAxis, run.begin, run.size) : value;
  }

  Status split_slice(OpId id, const Slice& slice) {
    const Op& op = shard_.ops[id];
    if (slice.axis != kChannelAxis) return unsplittable_op(id);
    std::vector<ValueId> results;
    for (const Run& run : runs_of(op.results[0]))
      results.push_back(range(op.operands[0], slice.begin + run.begin, run.size));
    define(id, std::move(results));
    return {};
  }

  // Channels [begin, begin + size) of a split value.
  ValueId range(ValueId old, int64_t begin, int64_t size) {
    std::vector<ValueId> pieces;
    const std::vector<Run> runs = runs_of(old);
    for (size_t i = 0; i < runs.size(); ++i) {
      const int64_t from = std::max(begin, runs[i].begin);
      const int64_t to = std::min(begin + size, runs[i].begin + runs[i].size);
      if (from < to)
        pieces.push_back(b_.slice(parts_[old][i], kChannelAxis, from - runs[i].begin, to - from));
    }
    return pieces.size() == 1 ? pieces[0] : b_.concat(std::move(pieces), kChannelAxis);
  }

  ValueId cut(ValueId value, int64_t axis, const Run& run) {
    const bool all = b_.type(value).dims.at(axis) == run.size;
    return all ? value : b_.slice(value, axis, run.begin, run.size);
  }

  ValueId part(ValueId old, size_t i) const {
    return is_wide(old) ? parts_[old][i] : rewriter_(old);
  }

  void define(OpId id, std::vector<ValueId> results) {
    const ValueId old = shard_.ops[id].results[0];
    if (!is_wide(old)) return rewriter_.replace(id, std::move(results));
    for (size_t i = 0; i < results.size(); ++i)
      b_.name_if_unnamed(results[i], fmt::format("{}.part{}", rewriter_.scope_name(id), i));
    parts_[old] = std::move(results);
  }

  Status unsplittable_op(OpId id) const {
    const Op& op = shard_.ops[id];
    for (ValueId value : op.results)
      if (is_wide(value)) return fail_at(value, mnemonic(op.data));
    for (ValueId value : op.operands)
      if (is_wide(value)) return fail_at(value, fmt::format("an operand of {}", mnemonic(op.data)));
    return {};
  }

  tl::unexpected<Diagnostics> fail_at(ValueId value, std::string_view what) const {
    const ExcessSize excess{what, channels_of(shard_.type(value)), "channels",
                            target_.limits.channels};
    return unsplittable(
        shard_, value, excess, target_,
        "increase --head-slices if these are logits, or pass --mla expanded if they are "
        "queries of latent attention");
  }

  const Shard& shard_;
  const Target& target_;
  Rewriter rewriter_;
  Builder& b_;
  IdMap<ValueId, std::vector<ValueId>> parts_;  // per old value that is split
};

}  // namespace

Result<Shard> limit_channels(const Shard& shard, PassContext& context) {
  const Target& target = context.options.target;
  if (target.limits.channels == 0) return shard;
  return ChannelSplitter(shard, target).rewrite();
}

namespace {

// Checks the last two axes of an input or a computed value. Weights are exempt: the large axes of
// convolution weights are the first ones, which limit_channels splits.
Status check(const Shard& shard, ValueId value, std::string_view what, const Target& target) {
  const Dims& dims = shard.type(value).dims;
  for (int64_t axis = std::max<int64_t>(0, dims.rank() - 2); axis < dims.rank(); ++axis) {
    if (dims.at(axis) <= target.limits.extent) continue;
    const std::string unit = fmt::format("elements along axis {}", axis);
    return unsplittable(shard, value, {what, dims.at(axis), unit, target.limits.extent}, target,
                        "reduce --tokens or --context, or pass --kv state for a paged cache or "
                        "--attention per_head");
  }
  return {};
}

}  // namespace

Result<Shard> limit_extents(const Shard& shard, PassContext& context) {
  const Target& target = context.options.target;
  if (target.limits.extent == 0) return shard;
  for (ValueId input : shard.inputs) MOEC_TRY(check(shard, input, "an input", target));
  for (const Op& op : shard.ops) {
    if (std::holds_alternative<Weight>(op.data)) continue;
    for (ValueId result : op.results) MOEC_TRY(check(shard, result, mnemonic(op.data), target));
  }
  return shard;
}

namespace {

// Joins neighbouring parts into `count` groups, whose sizes differ by at most one part.
std::vector<ValueId> join_groups(Builder& b, const std::vector<ValueId>& parts, size_t count,
                                 int64_t axis) {
  std::vector<ValueId> joined;
  for (size_t i = 0, begin = 0; i < count; ++i) {
    const size_t end = parts.size() * (i + 1) / count;
    joined.push_back(end - begin == 1 ? parts[begin]
                                      : b.concat({&parts[begin], &parts[end]}, axis));
    begin = end;
  }
  return joined;
}

}  // namespace

Result<Shard> limit_fan_in(const Shard& shard, PassContext& context) {
  if (context.options.target.limits.fan_in == 0) return shard;
  // At least 2: joining single parts would not reduce their number, and the loop below would not
  // terminate.
  const auto most = std::max<size_t>(2, static_cast<size_t>(context.options.target.limits.fan_in));
  auto lower = [&](Builder& b, const Concat& concat, const std::vector<ValueId>& operands) {
    std::vector<ValueId> parts = operands;
    while (parts.size() > most)
      parts = join_groups(b, parts, (parts.size() + most - 1) / most, concat.axis);
    return std::vector<ValueId>{b.concat(std::move(parts), concat.axis)};
  };
  return rewrite_each<Concat>(shard, shard.form, no_scope, lower);
}

}  // namespace moec
