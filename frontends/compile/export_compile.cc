#include "frontends/compile/export_compile.h"

#include <algorithm>
#include <set>

#include "backends/formats/coreml/spec_version.h"
#include "backends/formats/emit_shard.h"

namespace moec {

Result<CompiledShard> compile_for_export(const Plan& plan, size_t index,
                                         const CompileOptions& options) {
  const bool range = options.coreml.packaging == WidthPackaging::range;
  return (range ? compile_for_range : compile_shard)(plan, index, options.passes, options.run,
                                                     options.folds);
}

std::vector<ShardWidth> widths_of(const Plan& plan, const CompiledShard& compiled) {
  std::vector<ShardWidth> widths;
  const std::vector<int64_t>& tokens = plan.build.tokens;
  for (size_t i = 0; i < compiled.widths.size(); ++i)
    widths.push_back(
        {tokens[i % tokens.size()], &compiled.widths[i], compiled.forms[i / tokens.size()].label});
  return widths;
}

void settle_spec_version(const Plan& plan, CoremlOptions& coreml) {
  // A given version stays: a lower one states that the export must run on older systems.
  if (coreml.packaging != WidthPackaging::automatic || coreml.spec_version != 0 ||
      plan.build.tokens.size() < 2)
    return;
  const auto updates_state = [](const InputBinding& input) {
    return input.source == SourceKind::kv_write_mask;
  };
  for (const Step& step : plan.schedule)
    if (std::any_of(step.inputs.begin(), step.inputs.end(), updates_state))
      coreml.spec_version = kFunctionsSpecVersion;
}

// Compiles only the first shard of each kind. The export compiles every shard when it writes the
// shard, so trying every shard would double the compile time.
Status try_each_kind(const Plan& plan, const CompileOptions& options) {
  std::set<ShardKind> tried;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    if (!tried.insert(plan.shards[i].kind).second) continue;
    MOEC_ASSIGN(const CompiledShard compiled, compile_for_export(plan, i, options));
    MOEC_TRY(weight_views(options.passes.target.format, widths_of(plan, compiled),
                          {{}, options.coreml}));
  }
  return {};
}

}  // namespace moec
