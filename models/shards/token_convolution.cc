#include "models/shards/token_convolution.h"

namespace moec {

Layout convolution_layout(const ShardScope& scope) {
  const Layout layout = scope.options().layout;
  // Layout rows has only two axes, but a convolution needs a spatial axis for the tokens.
  return layout == Layout::rows ? Layout::channels : layout;
}

ValueId laid_out(Builder& b, ValueId x, Layout layout) {
  // Copies the type: adding an op may reallocate the builder's types.
  const Type from = b.type(x);
  if (from.layout == layout) return x;
  const int64_t channels = channels_of(from), tokens = tokens_of(from);
  if (layout == Layout::rows) return b.transpose(b.reshape(x, {channels, tokens}), {1, 0}, layout);
  const Dims dims = token_type(from.dtype, layout, channels, tokens).dims;
  return b.reshape(b.transpose(x, {1, 0}), dims, layout);
}

WeightView taps_of(const ShardScope& scope, const std::string& role, int64_t channels) {
  const RecurrentConfig& config = *scope.model().recurrent;
  WeightView taps = scope.stored(role, {channels, 1, config.taps});
  const int64_t added = config.tokens() - config.taps;
  if (added == 0) return taps;
  // The history can be longer than the taps require. Taps of 0 ignore the additional tokens.
  const Type zeros{view_type(taps)->dtype, {channels, 1, added}};
  return concat_view(2, {splat_view(0, zeros), std::move(taps)});
}

ValueId convolved(ShardScope& scope, ValueId x, const TokenConvolution& convolution) {
  const auto& [role, channels, of_group, taps, bias] = convolution;
  return convolved(scope, x, convolution, scope.stored(role, {channels, of_group, taps}));
}

ValueId convolved(ShardScope& scope, ValueId x, const TokenConvolution& convolution,
                  WeightView weights) {
  const auto& [role, channels, of_group, taps, bias] = convolution;
  // The kernel extends over tokens only; the other spatial axis has size 1.
  Dims dims = {channels, of_group, 1, 1};
  dims[token_axis(scope.b.type(x).layout)] = taps;
  std::vector<ValueId> operands = {
      x, scope.weight(then(std::move(weights), ReshapeStep{std::move(dims)}), role + ".weight")};
  if (bias) operands.push_back(scope.weight(role + "_bias", {channels}, role + ".bias"));
  return scope.b.emit(Conv{channels / of_group}, std::move(operands), role);
}

}  // namespace moec
