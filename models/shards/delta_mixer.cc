#include "models/shards/delta_mixer.h"

#include <cmath>

#include "ir/graph/rms.h"

namespace moec {

// Keeps the norm of a zero vector finite, as in the reference.
static constexpr double kLengthEps = 1e-6;

ValueId DeltaMixer::rms_normed(ValueId heads, double eps, const std::string& name) {
  Builder::NameScope scope(b_, name);
  return rms_normalise(b_, heads, kDimAxis, eps, scope_.options().dtype);
}

// RMS norms are scaled to length 1: the mean square of a vector of length 1 is 1/n.
DeltaMixer::Keys DeltaMixer::keys(ValueId qkv) {
  const int64_t key = key_channels(), value = value_channels();
  const auto dims = static_cast<double>(config_.key_dim);
  ValueId q = heads_of(b_.slice(qkv, kChannelAxis, 0, key), 1, config_.key_dim, "q");
  ValueId k = heads_of(b_.slice(qkv, kChannelAxis, key, key), 1, config_.key_dim, "k");
  const double eps = kLengthEps / dims;
  return {b_.mul(rms_normed(q, eps, "q"), scalar(q, 1 / dims), "q_scaled"),
          b_.mul(rms_normed(k, eps, "k"), scalar(k, 1 / std::sqrt(dims)), "k_unit"),
          heads_of(b_.slice(qkv, kChannelAxis, 2 * key, value), shared_, config_.value_dim, "v")};
}

// Pairs with j in the first half and i in the second half of a run of 2 · block tokens.
ValueId DeltaMixer::joins(int64_t block) {
  return pairs("joins", [&](int64_t j, int64_t i) {
    return j / (2 * block) == i / (2 * block) && j / block % 2 == 0 && i / block % 2 == 1;
  });
}

ValueId DeltaMixer::normed_heads(ValueId out) {
  WeightView weight = then(scope_.stored("mixer_norm", {config_.value_dim}),
                           ReshapeStep{{1, 1, config_.value_dim, 1}});
  return b_.mul(rms_normed(out, scope_.model().norm.eps, "mixer_norm"),
                b_.weight(then(std::move(weight), CastStep{dtype_}), "mixer_norm.weight"),
                "mixer_norm");
}

}  // namespace moec
