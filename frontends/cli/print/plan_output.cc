#include "frontends/cli/print/plan_output.h"

#include <fmt/format.h>

#include <map>

#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"
#include "models/plan/join_layers.h"
#include "models/tensors/rope.h"

namespace moec {
namespace {

// "32 32 32 32" as "4 x 32", the larger sizes first.
std::string describe_groups(const std::vector<int64_t>& sizes) {
  std::map<int64_t, int64_t, std::greater<>> counts;
  for (const int64_t size : sizes) ++counts[size];
  std::string text;
  for (const auto& [size, count] : counts)
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", count, size);
  return text;
}

std::string describe_budget(const KindReport& kind) {
  if (kind.budget_bytes == 0) return "none";
  const double margin = 100.0 - 100.0 * static_cast<double>(kind.largest_bytes) /
                                    static_cast<double>(kind.budget_bytes);
  return fmt::format("{:>9} {:>8}", decimal_bytes(kind.budget_bytes),
                     kind.within_budget() ? fmt::format("{:.1f} %", margin) : "OVER");
}

void print_kinds(const PlanReport& report) {
  print_out("{:<10} {:>7} {:>10} {:>10} {:>9} {:>8} {:>12} {:>10}\n", "shards", "count", "largest",
            "all", "budget", "margin", "activations", "resident");
  for (const KindReport& kind : report.kinds)
    print_out("{:<10} {:>7} {:>10} {:>10} {:<18} {:>12} {:>10}\n", enum_name(kind.kind),
              kind.shards, decimal_bytes(kind.largest_bytes), decimal_bytes(kind.total_bytes),
              describe_budget(kind), decimal_bytes(kind.peak_activation_bytes),
              decimal_bytes(kind.resident_bytes));
}

std::string describe_storage(const StoredWeights& stored) {
  if (stored.block.empty())
    return fmt::format("the checkpoint stores its experts as {}; an export decodes them",
                       enum_name(stored.coding));
  return fmt::format("the checkpoint stores matrices as {} of {}; an export decodes them",
                     enum_name(stored.coding), fmt::join(stored.block, " x "));
}

std::string describe_weights(const BuildOptions& build) {
  const std::string dtype(dtype_name(build.dtype));
  return build.weights.all_float() ? dtype : dtype + " and " + to_string(build.weights);
}

std::string describe_layers(const Plan& plan) {
  if (plan.build.layers_per_shard == 0) return "none";
  const auto layers = std::ssize(plan.model.layers);
  return describe_groups(layer_groups(layers, plan.build));
}

std::string describe_experts(const PlannedSource& planned, const ShardCut& cut) {
  return fmt::format("{}{} ({})", describe_groups(planned.measured.report.groups),
                     cut.slices > 1 ? fmt::format(", each in {} slices", cut.slices) : "",
                     is_whole_moe(cut.kind) ? "with the router" : "router in a shard of its own");
}

// What was cut, and into what.
std::string describe_cut(const PlannedSource& planned, const ShardCut& cut) {
  const std::string slices = fmt::format("{} slice{}", cut.parts, cut.parts == 1 ? "" : "s");
  switch (cut.kind) {
    case ShardKind::layers:
      return "whole layers a shard: " + describe_layers(planned.made.plan);
    case ShardKind::lm_head:
      return "head: " + slices;
    case ShardKind::mlp:
      return "MLP of a dense layer: " + slices;
    case ShardKind::shared:
      return "shared expert of a layer: " + slices;
    case ShardKind::moe:
    case ShardKind::experts:
    case ShardKind::attention:
    case ShardKind::router:
      break;
  }
  return "experts of a layer: " + describe_experts(planned, cut);
}

void print_cuts(const PlannedSource& planned) {
  for (const ShardCut& cut : planned.made.cuts)
    print_out("{}: {}\n", describe_cut(planned, cut), cut.reason);
}

void print_cost(std::string_view name, const TokenCost& cost) {
  print_out("  {:<14} {:>10} {:>14} MACs\n", name, decimal_bytes(cost.bytes), cost.macs);
}

void print_memory(const PlannedSource& planned) {
  const PlanReport& report = planned.measured.report;
  print_out("memory\n");
  const auto row = [](std::string_view name, int64_t bytes, const std::string& note) {
    print_out("  {:<14} {:>10}  {}\n", name, decimal_bytes(bytes), note);
  };
  row("trunk", report.trunk_bytes,
      fmt::format("of it the head {}", decimal_bytes(report.head_bytes)));
  row("experts", report.expert_total_bytes,
      fmt::format("{} each", decimal_bytes(report.expert_bytes)));
  row("tables", report.embedding_bytes + report.rope_bytes,
      fmt::format("embedding {}, rotary {}", decimal_bytes(report.embedding_bytes),
                  decimal_bytes(report.rope_bytes)));
  if (planned.made.plan.model.keeps_cache())
    row("KV cache", report.cache_bytes,
        fmt::format("{} rows of {} bytes", planned.made.plan.build.context,
                    report.cache_bytes / planned.made.plan.build.context));
  row("total", report.total_bytes(), "");
}

void print_resident(const ResidentSet& set) {
  print_out("\nresident: {} of {} experts of each layer in {}: {} besides them, {} a slot\n",
            resident_capacity(set), set.experts, decimal_bytes(set.budget_bytes),
            decimal_bytes(set.base_bytes), decimal_bytes(set.slot_bytes));
}

}  // namespace

void print_plan(const PlannedSource& planned) {
  const PlanReport& report = planned.measured.report;
  const ModelConfig& model = planned.made.plan.model;
  const BuildOptions& build = planned.made.plan.build;
  print_out("{} ({}): {} parameters, {} layers\n", planned.source, model.family, report.parameters,
            model.layers.size());
  print_out("for {}: weights counted as {}, token widths {}, context {}\n\n", planned.target,
            describe_weights(build), fmt::join(build.tokens, " "), build.context);
  if (model.stored.coding != WeightCoding::plain)
    print_out("{}\n\n", describe_storage(model.stored));
  for (const RopeConfig& rope : model.rotations())
    if (const std::string factors = describe_factors(rope, build.context); !factors.empty())
      print_out("rotation: {}\n\n", factors);
  print_kinds(report);
  print_out("\n");
  print_cuts(planned);
  print_out("\na token reads   weights and multiplies\n");
  print_cost("dense, static", report.dense);
  print_cost("host-routed", report.host_routed);
  print_cost("ideal sparse", report.sparse);
  print_out("\n");
  print_memory(planned);
  if (planned.resident) print_resident(*planned.resident);
}

}  // namespace moec
