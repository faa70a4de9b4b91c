#include <fmt/format.h>

#include "ir/analysis/router_choice.h"
#include "passes/passes.h"

namespace moec {

Result<Shard> mask_experts(const Shard& shard, PassContext& context) {
  const auto& kept = context.options.kept_experts;
  if (!is_exact(context.options.routing))
    return fail("mask.inexact",
                fmt::format("{} chooses no experts, so that none can be kept from being chosen",
                            enum_name(context.options.routing)),
                "give another --routing, or no mask of experts", {.shard = shard.name});
  MOEC_ASSIGN(const std::vector<RouterChoice> routers, find_choices(shard, kept.size()));
  size_t next = 0;
  return with_ceilings(shard, routers, [&](Builder& b, const RouterChoice& router) {
    const std::vector<int64_t>& slots = kept[next++];
    if (slots.empty()) return ValueId{};
    const Type type = ceiling_type(shard, router);
    return b.constant(type, choice_ceilings(type.dtype, type.elements(), slots),
                      ceiling_name(router));
  });
}

}  // namespace moec
