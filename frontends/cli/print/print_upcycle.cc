#include "frontends/cli/print/print_upcycle.h"

#include <algorithm>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

void print_model(const UpcycleReport& report) {
  const ModelConfig& model = report.plan.result;
  const auto layers = std::count_if(model.layers.begin(), model.layers.end(),
                                    [](const LayerConfig& layer) { return layer.moe; });
  print_out("{}: {} of {} layers with {} experts of {} units, {} a token\n", model.family, layers,
            model.layers.size(), model.moe.experts, model.moe.expert_ff, model.moe.routing.top_k);
  if (report.plan.group > 1)
    print_out("groups of {} experts with equal router rows\n", report.plan.group);
  if (model.moe.shared_ff > 0) print_out("a shared expert of {} units\n", model.moe.shared_ff);
  const PartFactors& factors = report.plan.factors;
  if (factors != PartFactors{})
    print_out("factors: gate {:.6g}, up {:.6g}, down {:.6g}\n", factors.gate, factors.up,
              factors.down);
  print_out("{}\n", to_string(report.plan.exact));
}

void print_comparison(const UpcycleComparison& comparison, double max_error) {
  print_out(
      "verified on {} tokens: largest relative error {:.3g} (allowed {:.3g}), KL {:.3g}, same "
      "likeliest token {:.2f} %, whole groups {:.4f} % of {} choices\n",
      comparison.tokens, comparison.max_error, max_error, comparison.mean_kl, 100 * comparison.top1,
      100 * comparison.whole_rate(), comparison.choices);
}

}  // namespace

void print_upcycle(const UpcycleReport& report, double seconds) {
  print_notes(report.plan.notes);
  print_model(report);
  const std::string bytes = binary_bytes(static_cast<double>(report.tensor_bytes));
  if (report.dry_run)
    print_out("{} tensors, {} bytes ({}) would be written\n", report.plan.tensors.size(),
              report.tensor_bytes, bytes);
  else
    print_out("{} tensors, {} bytes ({}) in {}, {:.1f} s\n", report.plan.tensors.size(),
              report.tensor_bytes, bytes, report.out, seconds);
  if (report.comparison) print_comparison(*report.comparison, report.max_error);
}

}  // namespace moec
