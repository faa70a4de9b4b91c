#include "models/shards/affine_residual.h"

namespace moec {
namespace {

ValueId scale_of(ShardScope& scope, ValueId like, const std::string& role) {
  return scope.channel_vector(like, role + "_scale", role + ".scale");
}
ValueId bias_of(ShardScope& scope, ValueId like, const std::string& role) {
  return scope.channel_vector(like, role + "_bias", role + ".bias");
}

// (x + ROLE_bias) · ROLE_scale.
ValueId affine(ShardScope& scope, ValueId x, const std::string& role, const std::string& name) {
  ValueId moved = scope.b.add(x, bias_of(scope, x, role));
  return scope.b.mul(moved, scale_of(scope, x, role), name);
}

}  // namespace

ValueId affine_stream(ShardScope& scope, ValueId embedded) {
  return affine(scope, embedded, "embed", "stream");
}

ValueId affine_sum(ShardScope& scope, ValueId residual, ValueId part, const std::string& branch,
                   const std::string& name) {
  Builder& b = scope.b;
  // Distributes (part + bias) · scale over its terms, so that later parts of a divided sum add only
  // part · scale (add_affine_part()).
  const std::string role = branch + "_part";
  ValueId kept = affine(scope, residual, branch + "_residual", name + ".kept");
  ValueId scale = scale_of(scope, part, role);
  ValueId base = b.add(kept, b.mul(bias_of(scope, part, role), scale), name + ".base");
  return b.add(base, b.mul(part, scale, name + ".added"), name);
}

ValueId add_affine_part(ShardScope& scope, ValueId sum, ValueId part, const std::string& branch,
                        const std::string& name) {
  Builder& b = scope.b;
  return b.add(sum, b.mul(part, scale_of(scope, part, branch + "_part"), name + ".added"), name);
}

}  // namespace moec
