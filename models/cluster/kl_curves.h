// KL divergence of a group of experts as a function of the routing share that the group lacks, per
// class of prompts. The points are measured: reports of `moec compare EXPORT --groups FILE
// --prompts SUITE --json` have the KL of each group by category, and the profile has the share of
// the group's experts by category. Nothing is assumed about classes without a report.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/cluster/prompt_classes.h"

namespace moec {

struct KlPoint {
  double lost = 0;  // share of the routing on experts that the group lacks, 0 to 1
  double kl = 0;    // nats per token
};

// A non-decreasing curve: isotonic regression of the points by least squares (pool adjacent
// violators, Barlow et al. 1972), with lines between them. Points in ascending order of both values
// lie on the curve.
class KlCurve {
 public:
  KlCurve() = default;
  explicit KlCurve(std::vector<KlPoint> points);
  // Empty outside of the range of the points.
  std::optional<double> at(double lost) const;

 private:
  std::vector<KlPoint> points_;  // ascending
};

// Reads reports and returns a curve per class that they measure. A report without --against adds
// the point (0, 0): an export has no divergence from itself. Errors:
//   kl.file, kl.syntax, kl.duplicate_key, kl.missing_field
//   kl.bad_value   also a failed report, a report of a part, a KL below 0, no classes of the
//   profile kl.class       the profile has a category named kAllPrompts those of
//   parse_expert_sets()
Result<std::map<std::string, KlCurve>> read_kl_curves(const std::vector<std::string>& files,
                                                      const std::vector<PromptClass>& classes,
                                                      const ExpertGrid& grid);

}  // namespace moec
