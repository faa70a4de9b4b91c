#include "frontends/compile/plan_top_k.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/ops.h"
#include "ir/model/model_experts.h"

namespace moec {
namespace {

constexpr const char* kForms = "--top-k";

// Routers whose definition has a fixed number of picks.
Status check_score(const ModelConfig& model) {
  if (!picks_two(model.moe.routing.score)) return {};
  return fail("top_k.fixed",
              fmt::format("{}: the routers of {} make {} picks, each by a rule of its own "
                          "(sparsemixer), and no other number",
                          kForms, model.family, model.moe.routing.top_k),
              "leave --top-k out");
}

Status check_routing(const CompileOptions& compile) {
  if (is_exact(compile.passes.routing)) return {};
  return fail("top_k.routing",
              fmt::format("--routing {} weights all experts, whatever --top-k says",
                          enum_name(compile.passes.routing)),
              "give another --routing, or leave out --top-k");
}

// Several forms share a file of weights as ONNX graphs beside one data file do, and as functions of
// one package.
Status check_packaging(const CompileOptions& compile, size_t forms) {
  if (forms < 2 || compile.passes.target.format != ShardFormat::coreml ||
      compile.coreml.packaging == WidthPackaging::functions)
    return {};
  return fail("top_k.packaging",
              fmt::format("{} forms of top-k in Core ML packages share their weights as functions "
                          "of one package; --widths {} makes none",
                          forms, enum_name(compile.coreml.packaging)),
              "give --widths functions, or one form of --top-k");
}

}  // namespace

Result<std::vector<TopKForm>> plan_top_k(const CompileOptions& compile, const ModelConfig& model,
                                         bool ane_book) {
  if (compile.choice.top_k.empty()) return std::vector<TopKForm>();
  MOEC_ASSIGN(std::vector<TopKForm> forms,
              parse_top_k_forms(compile.choice.top_k, expert_grid(model), kForms));
  MOEC_TRY(check_score(model));
  MOEC_TRY(check_routing(compile));
  MOEC_TRY(check_packaging(compile, forms.size()));
  if (ane_book && forms.size() > 1)
    return fail("top_k.ane_book",
                "the runtimes of the ane-book take one graph a shard, and so one form of top-k",
                "give one form of --top-k, or leave out --compat");
  return forms;
}

Result<TopKPolicy> plan_top_k_policy(const CompileOptions& compile, const Plan& plan) {
  if (compile.choice.policy.empty()) return TopKPolicy();
  const std::vector<TopKForm>& forms = plan.build.experts.top_k;
  if (forms.empty())
    return fail("policy.no_forms",
                "--top-k-policy chooses among forms of top-k, of which the "
                "export has none",
                "give --top-k 1,2 or such forms, too", {.file = compile.choice.policy});
  MOEC_ASSIGN(TopKPolicy policy,
              read_top_k_policy(compile.choice.policy, forms, expert_grid(plan.model)));
  if (policy.confidence && !plan.build.host_routing)
    return fail("policy.confidence",
                "a runtime sees what a router is sure of before its experts run only where routers "
                "are shards of their own",
                "give --routing host, or leave confidence out of the policy",
                {.file = compile.choice.policy});
  return policy;
}

Status check_capacity(const PassOptions& passes, const ModelConfig& model) {
  if (passes.capacity == 0) return {};
  if (!is_exact(passes.routing))
    return fail(
        "capacity.routing",
        fmt::format("--routing {} gives every expert every token", enum_name(passes.routing)),
        "give another --routing, or leave out --capacity");
  if (expert_grid(model).layers.empty())
    return fail("capacity.no_experts", "--capacity: the model has no layer with experts",
                "leave the flag out");
  return {};
}

ExpertGrid grid_of_forms(const ModelConfig& model, const std::vector<TopKForm>& forms) {
  ExpertGrid grid = expert_grid(model);
  if (!forms.empty()) grid.top_k = 0;
  for (const TopKForm& form : forms) grid.top_k = std::max(grid.top_k, form.largest());
  return grid;
}

}  // namespace moec
