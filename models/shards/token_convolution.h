// Convolutions over the tokens of a step and those before it.
#pragma once

#include <string>

#include "models/shards/shard_scope.h"

namespace moec {

// The layout in which convolutions are built: that of the shard, or channels where it has rows.
Layout convolution_layout(const ShardScope& scope);

// A token tensor in another layout.
ValueId laid_out(Builder& b, ValueId x, Layout layout);

// The taps of a role as stored, [channels, 1, RecurrentConfig::taps], with those of weight 0 that
// RecurrentConfig::tokens() adds in front.
WeightView taps_of(const ShardScope& scope, const std::string& role, int64_t channels);

// Weights [channels, of_group, taps] of a role and, with `bias`, [channels] of ROLE_bias.
struct TokenConvolution {
  std::string role;
  int64_t channels = 0;
  int64_t of_group = 1;  // channels that are mixed with one another
  int64_t taps = 0;
  bool bias = false;
};

// x has the layout of convolution_layout() and taps - 1 tokens more than the result. The weights
// are those of the role, or `weights` in their place.
ValueId convolved(ShardScope& scope, ValueId x, const TokenConvolution& convolution);
ValueId convolved(ShardScope& scope, ValueId x, const TokenConvolution& convolution,
                  WeightView weights);

}  // namespace moec
