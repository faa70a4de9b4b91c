#include "frontends/cli/print/print_validation.h"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "frontends/cli/print/say.h"

namespace moec {
namespace {

std::string percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_row(const std::string& name, const Comparison& c, bool passed) {
  print_out("{:<14} {:.9f}  {:9.2e}  {:7.1f}  {:9.2e} @{:<6} {:>8} {:9.2e}  {}\n", name, c.cosine,
            c.relative_l2, c.sqnr_db, c.max_abs, c.max_index, c.nonfinite, c.headroom,
            passed ? "ok" : "BELOW");
}

// One line for each number of bits that shards have, the most first.
void print_thresholds(const ValidationReport& report) {
  std::map<int64_t, Thresholds, std::greater<>> by_bits;
  for (const ShardReport& shard : report.shards) by_bits[shard.thresholds.bits] = shard.thresholds;
  for (const auto& [bits, thresholds] : by_bits)
    print_out("thresholds of {:>2} bits: cosine >= {}, relative L2 <= {}\n", bits,
              thresholds.cosine, thresholds.relative_l2);
}

}  // namespace

void print_validation(const ValidationReport& report) {
  print_out("each shard alone on golden inputs\n");
  print_thresholds(report);
  print_out("{:<14} {:<11}  {:<9}  {:<7}  {:<17} {:>8} {:<9}\n", "shard", "cosine", "rel L2",
            "SQNR dB", "max error", "NaN/Inf", "headroom");
  for (const ShardReport& shard : report.shards) {
    print_row(shard.shard, shard.alone, shard.passed);
    if (shard.cache) print_row("  new K, V", *shard.cache, shard.passed);
  }
  print_out("routers\n{:<14} {:<12} {:<13} {:<12} {}\n", "shard", "same experts", "weight moved",
            "least margin", "tokens closer than the logit error");
  for (const ShardReport& shard : report.shards)
    if (shard.router)
      print_out("{:<14} {:<12} {:<13.2e} {:<12.2e} {}\n", shard.shard,
                percent(shard.router->same_set, shard.router->tokens), shard.router->moved_weight,
                shard.router->min_margin, shard.router->close_tokens);
  print_out("chained from tokens to logits\n");
  for (const ShardReport& shard : report.shards) print_row(shard.shard, shard.chained, true);
  print_out("logits: top-1 {} of {} tokens, KL {:.2e} nats\n",
            percent(report.logits.same_top1, report.logits.tokens), report.logits.tokens,
            report.logits.mean_kl);
  if (report.greedy_wanted > 0)
    print_out("greedy text: {} of {} tokens equal\n", report.greedy_equal, report.greedy_wanted);
  if (!report.top_k.empty()) print_out("{}\n", report.top_k);
  if (report.drops) print_out("capacity: {}\n", report.drops->describe());
  if (!report.exact && report.top_k.empty())
    print_out("the export's routing is inexact: router agreement is not to be expected\n");
  print_out("{}\n", report.passed ? "PASSED" : "FELL SHORT");
}

}  // namespace moec
