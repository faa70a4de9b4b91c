#include "frontends/compile/plan_top_k.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/ops.h"
#include "ir/model/model_experts.h"

namespace moec {
namespace {

constexpr const char* kForms = "--top-k";

// Refuses --top-k for routers with a fixed number of experts by definition.
Status check_score(const ModelConfig& model) {
  if (!picks_two(model.moe.routing.score)) return {};
  return fail(
      "top_k.fixed",
      fmt::format(
          "{}: the routers of {} always select {} experts, each by a different rule (sparsemixer)",
          kForms, model.family, model.moe.routing.top_k),
      "omit --top-k");
}

Status check_routing(const CompileOptions& compile) {
  if (is_exact(compile.passes.routing)) return {};
  return fail("top_k.routing",
              fmt::format("--routing {} runs all experts and ignores --top-k",
                          enum_name(compile.passes.routing)),
              "use another --routing, or omit --top-k");
}

// Several variants must share one weight file, either as ONNX graphs with a common data file or as
// functions of one Core ML package.
Status check_packaging(const CompileOptions& compile, size_t forms) {
  if (forms < 2 || compile.passes.target.format != ShardFormat::coreml ||
      compile.coreml.packaging == WidthPackaging::automatic ||
      compile.coreml.packaging == WidthPackaging::functions)
    return {};
  return fail("top_k.packaging",
              fmt::format("{} top-k variants must be functions of one Core ML package to share "
                          "weights, but --widths {} writes no functions",
                          forms, enum_name(compile.coreml.packaging)),
              "omit --widths, or pass a single --top-k variant");
}

}  // namespace

Result<std::vector<TopKVariant>> plan_top_k(const CompileOptions& compile, const ModelConfig& model,
                                            bool ane_book) {
  if (compile.choice.top_k.empty()) return std::vector<TopKVariant>();
  MOEC_ASSIGN(std::vector<TopKVariant> forms,
              parse_top_k_variants(compile.choice.top_k, expert_grid(model), kForms));
  MOEC_TRY(check_score(model));
  MOEC_TRY(check_routing(compile));
  MOEC_TRY(check_packaging(compile, forms.size()));
  if (ane_book && forms.size() > 1)
    return fail("top_k.ane_book",
                "the ane-book runtimes support one graph per shard, but each top-k variant needs a "
                "separate graph",
                "pass a single --top-k variant, or omit --compat");
  return forms;
}

Result<TopKPolicy> plan_top_k_policy(const CompileOptions& compile, const Plan& plan) {
  if (compile.choice.policy.empty()) return TopKPolicy();
  const std::vector<TopKVariant>& forms = plan.build.experts.top_k;
  if (forms.empty())
    return fail("policy.no_forms",
                "--top-k-policy selects among top-k variants, but the export has none",
                "add --top-k, such as --top-k 1,2", {.file = compile.choice.policy});
  MOEC_ASSIGN(TopKPolicy policy,
              read_top_k_policy(compile.choice.policy, forms, expert_grid(plan.model)));
  // The runtime chooses the number of experts by the routing weights, before any expert runs.
  if (policy.confidence && !plan.build.host_routing)
    return fail("policy.confidence", "confidence-based top-k needs each router in a separate shard",
                "pass --routing host, or remove confidence from the policy",
                {.file = compile.choice.policy});
  return policy;
}

Status check_capacity(const PassOptions& passes, const ModelConfig& model) {
  if (passes.capacity == 0) return {};
  if (!is_exact(passes.routing))
    return fail(
        "capacity.routing",
        fmt::format(
            "with --routing {}, every expert processes every token, so --capacity has no effect",
            enum_name(passes.routing)),
        "use another --routing, or omit --capacity");
  if (expert_grid(model).layers.empty())
    return fail("capacity.no_experts", "--capacity needs experts, but the model has no MoE layers",
                "omit --capacity");
  return {};
}

ExpertGrid grid_of_forms(const ModelConfig& model, const std::vector<TopKVariant>& forms) {
  ExpertGrid grid = expert_grid(model);
  if (!forms.empty()) grid.top_k = 0;
  // A mask must leave enough experts for every variant, hence for the largest top-k.
  for (const TopKVariant& form : forms) grid.top_k = std::max(grid.top_k, form.largest());
  return grid;
}

}  // namespace moec
