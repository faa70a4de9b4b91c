#include "frontends/jobs/opt/optimise.h"

#include <utility>

#include "ir/base/name_file.h"
#include "ir/base/regular_file.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace moec {

Result<OptInput> read_opt_input(const std::string& path, const PassOptions& defaults,
                                const ShowFindings& show) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "opt.unreadable"));
  OptInput input{path, {}, {}, defaults};
  MOEC_ASSIGN(input.file, naming_file(split_ir_file(text, defaults), path));
  MOEC_ASSIGN(input.shard, parse_shard(input.file.input, {.file = path}));
  Diagnostics findings = verify(input.shard);
  if (!has_error(findings)) return input;
  if (show) show(print_with_findings(input.shard, findings));
  return fail(found_in_file(std::move(findings), path));
}

Result<Optimised> optimise(const OptInput& input, const std::string& passes,
                           const RunOptions& run) {
  PassContext context;
  context.options = passes.empty() ? input.file.options : input.defaults;
  std::vector<const Pass*> pipeline = default_pipeline(context.options);
  if (!passes.empty()) {
    MOEC_ASSIGN(pipeline, parse_pipeline(passes));
  } else if (!input.file.passes.empty()) {
    auto named = parse_pipeline(input.file.passes);
    if (!named) return fail(naming_file(named.error(), input.path));
    pipeline = std::move(*named);
  }
  auto result = run_pipeline(input.shard, pipeline, context, run);
  if (!result) return fail(found_in_file(std::move(result.error()), input.path));
  return Optimised{std::move(*result), std::move(context.notes)};
}

}  // namespace moec
