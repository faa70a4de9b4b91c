// Common parts of mixers that correct their state by the delta rule (decaying_mixer.h): keys of
// length 1, the correction of a multi-token step, and the norm per head.
#pragma once

#include <string>

#include "models/shards/decaying_mixer.h"

namespace moec {

class DeltaMixer : protected DecayingMixer {
 protected:
  // Per head, with tokens as columns. q and k are divided by their lengths, q also by √key_dim.
  struct Keys {
    ValueId q, k, v;
  };

  using DecayingMixer::DecayingMixer;

  // `qkv` has the channels of q, then of k, then of v.
  Keys keys(ValueId qkv);
  // Transposes columns of heads to rows.
  ValueId rows(ValueId columns, const std::string& name = {}) {
    return b_.transpose(columns, {0, 1, 3, 2}, Layout::plain, name);
  }

  // M_block: [T, T] with 1 for pairs of a token in the first half and one in the second half of a
  // run of 2 · block tokens.
  ValueId joins(int64_t block);
  // (I + A)⁻¹ by doubling blocks. Calls part(block), which returns A ∘ M_block, for block = 1, 2,
  // 4, … < T.
  template <class Part>
  ValueId inverse(Part part) {
    ValueId x = pairs("identity", [](int64_t j, int64_t i) { return j == i; });
    for (int64_t block = 1; block < tokens_; block *= 2) {
      ValueId joined = part(block);
      if (block > 1) joined = b_.matmul(b_.matmul(x, joined), x);
      x = b_.sub(x, joined, "inverse");
    }
    return x;
  }

  // The norm over the dims of each head.
  ValueId normed_heads(ValueId out);

 private:
  // Divides each column by sqrt(mean of its squares + eps). Ops are named "NAME.…".
  ValueId rms_normed(ValueId heads, double eps, const std::string& name);
};

// The rows of q, k, v and z in the tensor mixer_qkvz, which has all four per key head.
struct QkvzParts {
  WeightView q, k, v, z;
};
QkvzParts parts_of_qkvz(const ShardScope& scope);

}  // namespace moec
