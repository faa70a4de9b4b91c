#include "frontends/jobs/compare/expert_errors.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "backends/runtime/session/step_inputs.h"

namespace moec {
namespace {

std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// "experts.3.out" of a shard's only MoE layer, or "L05.experts.3.out" (passes/unroll_experts.cc).
std::optional<ExpertOutputs::Key> expert_of(const manifest::Shard& shard, std::string_view label) {
  if (!label.ends_with(".out") || shard.moe_layers.empty()) return std::nullopt;
  std::optional<int64_t> layer = shard.moe_layers.front();
  if (shard.kind == ShardKind::layers) {
    if (!label.starts_with('L')) return std::nullopt;
    label.remove_prefix(1);
    layer = take_number(label);
    if (!layer || !label.starts_with('.')) return std::nullopt;
    label.remove_prefix(1);
  }
  constexpr std::string_view kPrefix = "experts.";
  if (!label.starts_with(kPrefix)) return std::nullopt;
  label.remove_prefix(kPrefix.size());
  const std::optional<int64_t> expert = take_number(label);
  if (!expert || label != ".out") return std::nullopt;
  return std::pair(*layer, *expert);
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
  for (const auto& [key, sum] : experts_)
    experts.push_back({key.first, key.second, sum.tokens, sum.values.result()});
  return experts;
}

}  // namespace moec
