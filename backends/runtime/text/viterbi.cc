#include "backends/runtime/text/viterbi.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moec {
namespace {

// Remains -infinity after adding finite scores, so an illegal sequence never wins.
constexpr double kNever = -std::numeric_limits<double>::infinity();

// For each row and label: the best score of a sequence that ends there, and the preceding label of
// that sequence.
class Trellis {
 public:
  Trellis(const std::vector<Tag>& tags, const manifest::Tagging& tagging)
      : labels_(tags.size()), steps_(labels_ * labels_) {
    for (size_t from = 0; from < labels_; ++from)
      for (size_t to = 0; to < labels_; ++to)
        steps_[from * labels_ + to] = step_bias(tags[from], tags[to], tagging).value_or(kNever);
    for (const Tag& tag : tags) sums_.push_back(may_begin(tag) ? 0 : kNever);
  }

  void begin(std::span<const float> row) { add(row); }

  void advance(std::span<const float> row) {
    std::vector<size_t> before(labels_);
    std::vector<double> sums(labels_);
    for (size_t to = 0; to < labels_; ++to) {
      before[to] = best_before(to);
      sums[to] = sum_over(before[to], to);
    }
    sums_ = std::move(sums);
    before_.push_back(std::move(before));
    add(row);
  }

  // Follows the best final label back to the first row.
  std::vector<size_t> finish(const std::vector<Tag>& tags) {
    for (size_t label = 0; label < labels_; ++label)
      if (!may_end(tags[label])) sums_[label] = kNever;
    const auto best = std::max_element(sums_.begin(), sums_.end());
    std::vector<size_t> path = {static_cast<size_t>(best - sums_.begin())};
    for (size_t row = before_.size(); row > 0; --row) path.push_back(before_[row - 1][path.back()]);
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  double sum_over(size_t from, size_t to) const {
    return sums_[from] + steps_[from * labels_ + to];
  }

  size_t best_before(size_t to) const {
    size_t best = 0;
    for (size_t from = 1; from < labels_; ++from)
      // The comparison is strict, so that ties go to the lower label.
      if (sum_over(from, to) > sum_over(best, to)) best = from;
    return best;
  }

  void add(std::span<const float> row) {
    for (size_t label = 0; label < labels_; ++label) sums_[label] += row[label];
  }

  size_t labels_;
  std::vector<double> steps_, sums_;
  std::vector<std::vector<size_t>> before_;
};

}  // namespace

// Subtracts the largest logit so that exp() cannot overflow. The sum is then at least 1, so its
// logarithm is finite. Results below the range of float are clamped to its lowest finite value.
Rows log_softmax(const Rows& logits) {
  Rows result{logits.columns, {}};
  for (int64_t t = 0; t < logits.count(); ++t) {
    const std::span<const float> row = logits.row(t);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float x : row) sum += std::exp(x - largest);
    for (const float x : row)
      result.data.push_back(static_cast<float>(
          std::max<double>(x - largest - std::log(sum), std::numeric_limits<float>::lowest())));
  }
  return result;
}

std::vector<size_t> best_labels(const Rows& log_probabilities, const std::vector<Tag>& tags,
                                const manifest::Tagging& tagging) {
  const int64_t rows = log_probabilities.count();
  if (rows == 0) return {};
  Trellis trellis(tags, tagging);
  trellis.begin(log_probabilities.row(0));
  for (int64_t t = 1; t < rows; ++t) trellis.advance(log_probabilities.row(t));
  return trellis.finish(tags);
}

}  // namespace moec
