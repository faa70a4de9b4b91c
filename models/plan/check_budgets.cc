#include "models/plan/check_budgets.h"

#include <fmt/format.h>

#include "ir/base/byte_text.h"

namespace moec {
namespace {

// The name of the kind in --max-shard-mb.
std::string_view flag_name(ShardKind kind) {
  if (is_attention(kind)) return "attn";
  if (is_expert_group(kind) || is_shared_expert(kind)) return "moe";
  return enum_name(kind);
}

// The next step that cuts shards of the kind further; empty if there is none.
std::string how_to_cut(const KindReport& kind, const CutOptions& options) {
  if (is_whole_moe(kind.kind) && options.keep_moe_layers)
    return "omit --compat to cut the experts into groups; ";
  if (is_head(kind.kind) && options.head_slices > 0)
    return "pass a larger --head-slices, or omit the flag; ";
  if (holds_whole_layers(kind.kind))
    return "pass a smaller --layers-per-shard, or --layers-per-shard fit; ";
  return {};
}

std::string how_to_shrink(const PlanReport& report, const KindReport& kind) {
  // f16 helps only if all weights are f32 and half of the largest shard meets the budget.
  const bool halves =
      report.dtype == DType::f32 && report.all_float && kind.largest_bytes <= 2 * kind.budget_bytes;
  return halves ? "pass --dtype f16 to halve the bytes; " : "";
}

Diagnostic finding(const PlanReport& report, const KindReport& kind, const CutOptions& options) {
  // With --allow-over-budget, the export continues, so the finding is a warning.
  return {options.allow_over_budget ? Severity::warning : Severity::error,
          "plan.over_budget",
          fmt::format("{} of {} shards of kind {} exceed the budget of {}; the largest has {} of "
                      "weights",
                      kind.over, kind.shards, enum_name(kind.kind),
                      decimal_bytes(kind.budget_bytes), decimal_bytes(kind.largest_bytes)),
          fmt::format("{}{}pass --max-shard-mb {}={} to allow this size, or --allow-over-budget",
                      how_to_cut(kind, options), how_to_shrink(report, kind), flag_name(kind.kind),
                      megabytes_flag(kind.largest_bytes)),
          {.shard = kind.largest}};
}

}  // namespace

Diagnostics check_budgets(const PlanReport& report, const CutOptions& options) {
  Diagnostics findings;
  for (const KindReport& kind : report.kinds)
    if (!kind.within_budget()) findings.push_back(finding(report, kind, options));
  return findings;
}

}  // namespace moec
