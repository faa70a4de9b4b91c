#include "frontends/jobs/compare/expert_errors.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "backends/runtime/session/step_inputs.h"
#include "frontends/measure/value_labels.h"

namespace moec {
namespace {

// An expert's output, which is multiplied by its routing weight.
std::optional<ExpertId> expert_of(const manifest::Shard& shard, std::string_view label) {
  const auto inside = layer_label(shard, label);
  const auto expert = inside ? expert_label(inside->name) : std::nullopt;
  if (!expert || expert->name != "out") return std::nullopt;
  return ExpertId{inside->layer, expert->expert};
}

bool all_zero(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float v) { return v == 0; });
}

}  // namespace

StepProbe ExpertOutputs::probe(int64_t count) {
  return [this, count](const manifest::Shard& shard, std::string_view label, const Tensor& value) {
    if (const auto key = expert_of(shard, label)) outputs_[*key] = unpack_rows(value, count);
  };
}

void ExpertErrors::add(const ExpertOutputs& compared, const ExpertOutputs& reference) {
  for (const auto& [key, wanted] : reference.outputs()) {
    const auto found = compared.outputs().find(key);
    if (found == compared.outputs().end()) continue;
    Sum& sum = experts_[key];
    for (int64_t t = 0; t < wanted.count(); ++t) {
      if (all_zero(wanted.row(t))) continue;
      sum.values.add(found->second.row(t), wanted.row(t));
      ++sum.tokens;
    }
  }
}

std::vector<ComparedExpert> ExpertErrors::result() const {
  std::vector<ComparedExpert> experts;
  for (const auto& [key, sum] : experts_) experts.push_back({key, sum.tokens, sum.values.result()});
  return experts;
}

}  // namespace moec
