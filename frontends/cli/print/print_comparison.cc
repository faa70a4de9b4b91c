#include "frontends/cli/print/print_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "frontends/cli/print/say.h"

namespace moec {
namespace {

std::string with_error(const WindowMean& value, double factor, int digits) {
  std::string text = fmt::format("{:.{}f}", factor * value.mean, digits);
  if (value.standard_error)
    text += fmt::format(" +- {:.{}f}", factor * *value.standard_error, digits);
  return text;
}

void print_predictions(const CompareReport& report) {
  const PredictionComparison& found = report.predictions;
  print_out("{} tokens in {} windows of {}{}\n", found.tokens + found.nonfinite, report.windows,
            report.window,
            report.unused_tokens > 0 ? fmt::format(", {} left over", report.unused_tokens) : "");
  if (!report.top_k.empty()) print_out("B             {}\n", report.top_k);
  if (report.drops) print_out("B             {}\n", report.drops->describe());
  print_out("KL(A||B)      {} nats, p99 {:.6f}\n", with_error(found.kl, 1, 6), found.kl_p99);
  print_out("same top-1    {} %\n", with_error(found.top1, 100, 2));
  if (!found.bits) return;
  print_out("bits per {}  A {}, B {}, B - A {}\n", report.bytes ? "byte" : "token",
            with_error(found.bits->reference, 1, 5), with_error(found.bits->compared, 1, 5),
            with_error(found.bits->difference, 1, 5));
}

void print_row(const std::string& name, const ValueComparison& c) {
  print_out("{:<14} {:7.1f}  {:<11}  {:9.2e}  {:>7}\n", name, c.all.sqnr_db,
            c.mean_cosine ? fmt::format("{:.9f}", *c.mean_cosine) : "-", c.all.relative_l2,
            c.all.nonfinite);
}

void print_shards(const CompareReport& report) {
  if (report.shards.empty()) return;
  print_out("each shard of B on the inputs of A's\n{:<14} {:>7}  {:<11}  {:<9}  {}\n", "shard",
            "SQNR dB", "mean cosine", "rel L2", "NaN/Inf");
  for (const ComparedShard& shard : report.shards) {
    print_row(shard.shard, shard.output);
    if (shard.cache) print_row("  new K, V", *shard.cache);
  }
}

double percent_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print_routers(const CompareReport& report) {
  if (report.routers.empty()) return;
  print_out("routers\n{:<7} {:<14} {:<13} {}\n", "layer", "flipped sets", "weight moved",
            "never routed");
  for (const auto& [layer, routing] : report.routers) {
    const std::vector<int64_t> never = routing.never_routed();
    print_out("{:<7} {:<14} {:<13} {}\n", layer,
              fmt::format("{:.2f} %", percent_of(routing.flipped_sets, routing.tokens)),
              fmt::format("{:.3f} %", 100 * routing.moved_weight),
              never.empty() ? "-" : fmt::format("{}", fmt::join(never, ", ")));
  }
}

// Of the experts of a layer that some token chose, the median and the worst.
void print_experts_of_layer(std::vector<ComparedExpert> experts) {
  std::erase_if(experts, [](const ComparedExpert& expert) { return expert.tokens == 0; });
  if (experts.empty()) return;
  std::sort(experts.begin(), experts.end(), [](const auto& a, const auto& b) {
    return a.output.relative_l2 < b.output.relative_l2;
  });
  const ComparedExpert &median = experts[experts.size() / 2], &worst = experts.back();
  print_out("{:<7} {:<15.2e} {:<13} {:<9.2e} {}\n", worst.id.layer, median.output.relative_l2,
            worst.id.expert, worst.output.relative_l2, worst.tokens);
}

void print_experts(const CompareReport& report) {
  if (report.experts.empty()) return;
  print_out("each expert of B on the inputs of A's\n{:<7} {:<15} {:<13} {:<9} {}\n", "layer",
            "median rel L2", "worst expert", "rel L2", "tokens");
  std::map<int64_t, std::vector<ComparedExpert>> layers;
  for (const ComparedExpert& expert : report.experts) layers[expert.id.layer].push_back(expert);
  for (const auto& [layer, experts] : layers) print_experts_of_layer(experts);
}

}  // namespace

void print_comparison(const CompareReport& report) {
  print_predictions(report);
  print_shards(report);
  print_experts(report);
  print_routers(report);
  for (const Diagnostic& finding : report.findings) print_out("{}\n", render(finding));
  print_out("{}\n", report.passed ? "PASSED" : "FELL SHORT");
}

}  // namespace moec
