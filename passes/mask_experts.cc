#include <fmt/format.h>

#include "ir/analysis/router_choice.h"
#include "passes/passes.h"

namespace moec {

Result<Shard> mask_experts(const Shard& shard, PassContext& context) {
  const auto& kept = context.options.kept_experts;
  if (!is_exact(context.options.routing))
    return fail("mask.inexact",
                fmt::format("--routing {} weights all experts and cannot mask any",
                            enum_name(context.options.routing)),
                "pass another --routing, or omit --expert-mask", {.shard = shard.name});
  MOEC_ASSIGN(const std::vector<RouterChoice> routers, find_choices(shard, kept.size()));
  size_t next = 0;
  return with_ceilings(shard, routers, [&](Builder& b, const RouterChoice& router) {
    const std::vector<int64_t>& slots = kept[next++];
    // with_ceilings() leaves the router unclamped if the ceiling has an invalid id.
    if (slots.empty()) return ValueId{};
    const Type type = ceiling_type(shard, router);
    return b.constant(type, choice_ceilings(type.dtype, type.elements(), slots),
                      ceiling_name(router));
  });
}

}  // namespace moec
