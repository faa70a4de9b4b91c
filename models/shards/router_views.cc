#include "models/shards/router_views.h"

namespace moec {

WeightView router_matrix(const ShardScope& scope) {
  const int64_t slots = scope.model().moe.slots(), d = scope.model().hidden;
  if (!scope.model().names.has("router_in_out")) return scope.stored("router", {slots, d});
  return then(scope.stored("router_in_out", {d, slots}), PermuteStep{{1, 0}});
}

WeightView router_choice_bias(const ShardScope& scope) {
  const TensorNames& names = scope.model().names;
  const int64_t slots = scope.model().moe.slots();
  if (names.has("router_choice_bias_rows"))
    return then(then(scope.stored("router_choice_bias_rows", {2, slots}), SliceStep{0, 0, 1}),
                ReshapeStep{{slots}});
  if (names.has("router_choice_bias_row"))
    return then(scope.stored("router_choice_bias_row", {1, slots}), ReshapeStep{{slots}});
  return scope.stored("router_choice_bias", {slots});
}

}  // namespace moec
