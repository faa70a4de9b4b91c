#include "frontends/jobs/upcycle/target_arch.h"

#include <array>

namespace moec {
namespace {

constexpr std::array<TargetArch, 6> kArchs = {{
    {"mixtral", "MixtralForCausalLM", SharedForm::none, LayerChoice::all},
    {"qwen3_moe", "Qwen3MoeForCausalLM", SharedForm::none, LayerChoice::any, true},
    {"qwen2_moe", "Qwen2MoeForCausalLM", SharedForm::gated, LayerChoice::any, true},
    {"granitemoeshared", "GraniteMoeSharedForCausalLM", SharedForm::optional, LayerChoice::all},
    {"deepseek_v3", "DeepseekV3ForCausalLM", SharedForm::experts, LayerChoice::last, true, true},
    {"nemotron_h", "NemotronHForCausalLM", SharedForm::always, LayerChoice::apart, true, true},
}};

}  // namespace

std::span<const TargetArch> target_archs() { return kArchs; }

const TargetArch* find_target_arch(std::string_view model_type) {
  for (const TargetArch& arch : kArchs)
    if (arch.model_type == model_type) return &arch;
  return nullptr;
}

}  // namespace moec
