#include "frontends/compile/export_compile.h"

#include <set>

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
