#include "models/build/delta_mixer.h"

#include <cmath>

namespace moec {

// What keeps the length of a vector of zeros finite, as in the reference.
static constexpr double kLengthEps = 1e-6;

ValueId DeltaMixer::unit(ValueId x, const std::string& name) {
  ValueId squares = b_.reduce(ReduceFn::sum, b_.mul(x, x), kDimAxis);
  return b_.div(x, b_.unary(UnaryFn::sqrt, b_.add(squares, scalar(x, kLengthEps))), name);
}

DeltaMixer::Keys DeltaMixer::keys(ValueId qkv) {
  const int64_t key = key_channels(), value = value_channels();
  ValueId q =
      unit(heads_of(b_.slice(qkv, kChannelAxis, 0, key), 1, config_.key_dim, "q"), "q_unit");
  ValueId k =
      unit(heads_of(b_.slice(qkv, kChannelAxis, key, key), 1, config_.key_dim, "k"), "k_unit");
  const double scale = 1 / std::sqrt(static_cast<double>(config_.key_dim));
  return {b_.mul(q, scalar(q, scale), "q_scaled"), k,
          heads_of(b_.slice(qkv, kChannelAxis, 2 * key, value), shared_, config_.value_dim, "v")};
}

ValueId DeltaMixer::joins(int64_t block) {
  return pairs("joins", [&](int64_t j, int64_t i) {
    return j / (2 * block) == i / (2 * block) && j / block % 2 == 0 && i / block % 2 == 1;
  });
}

ValueId DeltaMixer::normed_heads(ValueId out) {
  ValueId mean = b_.reduce(ReduceFn::mean, b_.mul(out, out), kDimAxis);
  ValueId root = b_.unary(UnaryFn::sqrt, b_.add(mean, scalar(mean, scope_.model().norm.eps)));
  WeightView weight = then(scope_.stored("mixer_norm", {config_.value_dim}),
                           ReshapeStep{{1, 1, config_.value_dim, 1}});
  return b_.mul(b_.div(out, root),
                b_.weight(then(std::move(weight), CastStep{dtype_}), "mixer_norm.weight"),
                "mixer_norm");
}

}  // namespace moec
