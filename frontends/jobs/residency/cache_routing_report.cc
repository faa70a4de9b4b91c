#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/jobs/residency/cache_routing.h"
#include "ir/base/report_json.h"

namespace moec {

static double part(int64_t some, int64_t all) {
  // An empty text has no uses, so the share is 0 instead of NaN.
  return all == 0 ? 0 : static_cast<double>(some) / static_cast<double>(all);
}

std::string cache_routing_table(const CacheRouting& report) {
  std::string out = fmt::format(
      "{} tokens, {} layers, {} experts; biased routing differs from the model's: KL in nats "
      "from the model's predictions\n\n"
      "  slots policy    bias        hits    loads/token  changed      KL   KL p99    top-1\n",
      report.tokens, report.layers, report.experts);
  for (const CacheRoutingPoint& point : report.points)
    out += fmt::format(
        "{:>7} {:<7} {:>6g} {:>9.2f} % {:>14.3f} {:>6.1f} % {:>7.4f} {:>8.4f} "
        "{:>6.2f} %\n",
        point.slots, enum_name(point.policy), point.bias, 100 * point.counts.hit_rate(),
        part(point.counts.loads, report.tokens), 100 * part(point.changed, point.choices),
        point.predictions.kl.mean, point.predictions.kl_p99, 100 * point.predictions.top1.mean);
  return out;
}

nlohmann::ordered_json cache_routing_json(const CacheRouting& report) {
  using nlohmann::ordered_json;
  auto points = ordered_json::array();
  for (const CacheRoutingPoint& point : report.points)
    // "exact": without a changed choice, the run computed the model itself.
    points.push_back({{"policy", enum_name(point.policy)},
                      {"slots", point.slots},
                      {"bias", point.bias},
                      {"exact", point.changed == 0},
                      {"uses", point.counts.uses},
                      {"hits", point.counts.hits()},
                      {"loads", point.counts.loads},
                      {"hit_rate", point.counts.hit_rate()},
                      {"choices", point.choices},
                      {"changed", point.changed},
                      {"kl", point.predictions.kl.mean},
                      {"kl_p99", point.predictions.kl_p99},
                      {"top1", point.predictions.top1.mean},
                      {"nonfinite", point.predictions.nonfinite}});
  return report_json(true,
                     {{"tokens", report.tokens},
                      {"layers", report.layers},
                      {"experts", report.experts},
                      {"points", std::move(points)}},
                     report.notes);
}

}  // namespace moec
