// Convolutions over the tokens of a step and earlier tokens.
#pragma once

#include <string>

#include "models/shards/shard_scope.h"

namespace moec {

// The layout of convolutions: the shard's own, or channels if that is rows.
Layout convolution_layout(const ShardScope& scope);

// Converts a token tensor to a layout.
ValueId laid_out(Builder& b, ValueId x, Layout layout);

// The stored taps of a role, [channels, 1, RecurrentConfig::taps], preceded by zeros up to
// RecurrentConfig::tokens() taps.
WeightView taps_of(const ShardScope& scope, const std::string& role, int64_t channels);

// Weights [channels, of_group, taps] of a role and, with `bias`, [channels] of ROLE_bias.
struct TokenConvolution {
  std::string role;
  int64_t channels = 0;
  int64_t of_group = 1;  // channels per group
  int64_t taps = 0;
  bool bias = false;
};

// x must have the layout of convolution_layout(), and has taps - 1 more tokens than the result.
// `weights` default to the stored weights of the role.
ValueId convolved(ShardScope& scope, ValueId x, const TokenConvolution& convolution);
ValueId convolved(ShardScope& scope, ValueId x, const TokenConvolution& convolution,
                  WeightView weights);

}  // namespace moec
