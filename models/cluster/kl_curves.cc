#include "models/cluster/kl_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

using Points = std::map<std::string, std::vector<KlPoint>>;

// Replaces points with the same share by their mean.
std::vector<KlPoint> merged(std::vector<KlPoint> points) {
  std::sort(points.begin(), points.end(),
            [](const KlPoint& a, const KlPoint& b) { return a.lost < b.lost; });
  std::vector<KlPoint> result;
  for (size_t first = 0; first < points.size();) {
    size_t end = first;
    double sum = 0;
    for (; end < points.size() && points[end].lost == points[first].lost; ++end)
      sum += points[end].kl;
    result.push_back({points[first].lost, sum / static_cast<double>(end - first)});
    first = end;
  }
  return result;
}

class KlReader {
 public:
  KlReader(const JsonReport& report, const std::vector<PromptClass>& classes,
           const ExpertGrid& grid)
      : report_(report), classes_(classes), grid_(grid) {}

  Result<Points> read() {
    MOEC_ASSIGN(const JsonValue value, report_.parse());
    MOEC_ASSIGN(JsonFields fields, JsonFields::of(report_, value));
    bool ok = false;
    MOEC_TRY(fields.boolean("ok", ok));
    if (!ok) return fields.bad("ok", "must be true: the comparison failed");
    if (fields.has("part")) return fields.bad("part", "is set: join the parts with moec compare");
    std::string reference, compared;
    MOEC_TRY(fields.text("reference", reference));
    MOEC_TRY(fields.text("compared", compared));
    MOEC_TRY(fields.each("groups", [&](JsonFields& group) { return read_group(group); }));
    if (points_.empty())
      return fields.bad("groups", "have no scores of the categories of the profile");
    // Another export may differ from the reference with all of its experts.
    if (reference == compared)
      for (auto& [name, points] : points_) points.push_back({});
    return std::move(points_);
  }

 private:
  Status read_group(JsonFields& fields) {
    std::string experts;
    MOEC_TRY(fields.text("experts", experts));
    MOEC_ASSIGN(const ExpertSets sets, parse_expert_sets(experts, grid_, report_.file()));
    return fields.each("scores", [&](JsonFields& score) { return read_score(score, sets); });
  }

  Status read_score(JsonFields& fields, const ExpertSets& sets) {
    std::string category;
    MOEC_TRY(fields.text("category", category));
    MOEC_ASSIGN(JsonFields kl, fields.object("kl"));
    // Scores without tokens have no mean.
    if (kl.is_null("mean")) return {};
    KlPoint point;
    MOEC_TRY(kl.number("mean", point.kl));
    // Rounding may lower the KL of equal predictions below 0.
    constexpr double kRounding = 1e-6;
    if (!std::isfinite(point.kl) || point.kl < -kRounding)
      return kl.bad("mean", "must be finite and at least 0");
    point.kl = std::max(point.kl, 0.0);
    const auto found = std::find_if(classes_.begin(), classes_.end(),
                                    [&](const PromptClass& own) { return own.name == category; });
    if (found == classes_.end()) return {};
    point.lost = 1 - kept_share(*found, grid_, sets);
    points_[category].push_back(point);
    return {};
  }

  const JsonReport& report_;
  const std::vector<PromptClass>& classes_;
  const ExpertGrid& grid_;
  Points points_;
};

}  // namespace

KlCurve::KlCurve(std::vector<KlPoint> points) {
  struct Block {
    double sum = 0;
    size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  points_ = merged(std::move(points));
  std::vector<Block> blocks;
  for (const KlPoint& point : points_) {
    blocks.push_back({point.kl, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().count += last.count;
    }
  }
  size_t next = 0;
  for (const Block& block : blocks)
    for (size_t i = 0; i < block.count; ++i) points_[next++].kl = block.mean();
}

std::optional<double> KlCurve::at(double lost) const {
  // Shares are sums of rounded numbers, so the measured ends need a margin.
  constexpr double kMargin = 1e-9;
  if (points_.empty() || !(lost >= points_.front().lost - kMargin) ||
      lost > points_.back().lost + kMargin)
    return std::nullopt;
  const auto upper = std::find_if(points_.begin(), points_.end(),
                                  [&](const KlPoint& p) { return p.lost >= lost; });
  if (upper == points_.end()) return points_.back().kl;
  if (upper == points_.begin()) return upper->kl;
  const auto lower = upper - 1;
  const double part = (lost - lower->lost) / (upper->lost - lower->lost);
  return lower->kl + part * (upper->kl - lower->kl);
}

Result<std::map<std::string, KlCurve>> read_kl_curves(const std::vector<std::string>& files,
                                                      const std::vector<PromptClass>& classes,
                                                      const ExpertGrid& grid) {
  for (size_t c = 1; c < classes.size(); ++c)
    if (classes[c].name == kAllPrompts)
      return fail("kl.class",
                  fmt::format("the profile has a category named \"{}\", which reports use for all "
                              "categories",
                              kAllPrompts),
                  "rename the category and repeat moec analyze");
  Points points;
  for (const std::string& file : files) {
    MOEC_ASSIGN(const std::string text, read_user_text(file, "kl.file"));
    const JsonReport report(
        text, file,
        JsonCodes::by_prefix("kl", "pass the output of moec compare EXPORT --groups FILE --json"));
    MOEC_ASSIGN(const Points own, KlReader(report, classes, grid).read());
    for (const auto& [name, more] : own)
      points[name].insert(points[name].end(), more.begin(), more.end());
  }
  std::map<std::string, KlCurve> curves;
  for (auto& [name, own] : points) curves.emplace(name, KlCurve(std::move(own)));
  return curves;
}

}  // namespace moec
