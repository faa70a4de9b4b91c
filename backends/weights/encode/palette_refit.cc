#include "backends/weights/encode/palette_refit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <numeric>

#include "backends/weights/encode/palette.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// Row-major: one row per row of weights.
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const Eigen::MatrixXf>;

constexpr int kSweeps = 4;
// Regularization relative to the mean diagonal; without it, the equations are singular if two codes
// always occur together.
constexpr double kRidge = 1e-7;
// kProductRows: rows per product that computes gradients. kStrip: rows of H that stay in the CPU
// cache.
constexpr int64_t kProductRows = 128, kStrip = 64;

View hessian_of(const ErrorMetric& metric) {
  return {metric.hessian.data(), metric.size, metric.size};
}

// Computes Zᵀ·H·Z for one row of weights, where Z selects an entry per column. `unknowns` has the
// selected entries in the order of the metric, each below `count`.
class NormalMatrix {
 public:
  explicit NormalMatrix(int64_t count) : inside_(count, count), beside_(count, count) {
    inside_.setZero();
    beside_.setZero();
  }

  void add_row(const ErrorMetric& metric, std::span<const int32_t> unknowns) {
    const View hessian = hessian_of(metric);
    for (int64_t begin = 0; begin < metric.size; begin += kStrip) {
      const int64_t end = std::min(begin + kStrip, metric.size);
      add_strip(hessian, {begin, end, begin, end}, unknowns, inside_);
      add_strip(hessian, {begin, end, end, metric.size}, unknowns, beside_);
    }
  }

  Eigen::MatrixXd result() const { return inside_ + beside_ + beside_.transpose(); }

 private:
  struct Part {
    int64_t row_begin, row_end, column_begin, column_end;
  };

  void add_strip(const View& hessian, const Part& part, std::span<const int32_t> unknowns,
                 Eigen::MatrixXd& to) {
    const int64_t rows = part.row_end - part.row_begin;
    // Adds the columns of H that have the same unknown, then the rows: one addition per element of
    // H. A dense product with Z would cost one multiplication per entry and element.
    sums_.setZero(rows, to.cols());
    for (int64_t j = part.column_begin; j < part.column_end; ++j)
      sums_.col(unknowns[static_cast<size_t>(j)]) += hessian.col(j).segment(part.row_begin, rows);
    for (int64_t i = 0; i < rows; ++i)
      to.col(unknowns[static_cast<size_t>(part.row_begin + i)]) +=
          sums_.row(i).transpose().cast<double>();
  }

  Eigen::MatrixXf sums_;
  // H is symmetric, so one side of the diagonal is enough: result() adds its transpose.
  Eigen::MatrixXd inside_,
      beside_;  // contributions of blocks on the diagonal of H, and on one side of it
};

// Rows of weights that share tables. Their unknowns are the entries for the first block of columns,
// then for the second, and so on.
class RowGroup {
 public:
  RowGroup(const PaletteProblem& problem, PaletteCodes& palette, int64_t down)
      : problem_(problem),
        palette_(palette),
        down_(down),
        first_(down * problem.blocks.block_rows),
        entries_(int64_t{1} << problem.bits) {}

  // Computes E in the order of the metric; row `to` of the result is the group's first row.
  void errors(const ErrorMetric& metric, int64_t to, Rows& result) {
    for (int64_t j = 0; j < metric.size; ++j) {
      const int64_t column = metric.order[static_cast<size_t>(j)];
      const auto entries = table(across_of(column));
      const float* values = problem_.weights.column(column) + first_;
      for (int64_t r = 0; r < rows(); ++r) result(to + r, j) = values[r] - entries[code(column, r)];
    }
  }

  // Refits the entries. `gradients` has E·H per metric; the group's rows begin at row `from`.
  void refit(const std::vector<Rows>& gradients, int64_t from) {
    // The normal equations of the entries: (Σ Zᵀ·H·Z)·change = Σ Zᵀ·(H·e), summed over the rows
    // that share the tables.
    const int64_t count = problem_.blocks.across() * entries_;
    NormalMatrix normal(count);
    Eigen::VectorXd target = Eigen::VectorXd::Zero(count);
    for (size_t m = 0; m < gradients.size(); ++m)
      for (int64_t r = 0; r < rows(); ++r) {
        find_unknowns(problem_.metrics[m], r);
        normal.add_row(problem_.metrics[m], unknowns_);
        for (size_t j = 0; j < unknowns_.size(); ++j)
          target[unknowns_[j]] +=
              static_cast<double>(gradients[m](from + r, static_cast<int64_t>(j)));
      }
    const Eigen::VectorXd change = solve(normal.result(), target);
    for (int64_t across = 0; across < problem_.blocks.across(); ++across)
      change_table(across, change.segment(across * entries_, entries_));
  }

  void descend(std::vector<Rows>& gradients, int64_t from) {
    for (size_t m = 0; m < gradients.size(); ++m)
      for (int64_t r = 0; r < rows(); ++r)
        for (int sweep = 0; sweep < kSweeps; ++sweep)
          if (!descend_row(problem_.metrics[m], r, gradients[m].row(from + r).data())) break;
  }

 private:
  int64_t rows() const { return problem_.blocks.block_rows; }
  int64_t across_of(int64_t column) const { return column / problem_.blocks.block_columns; }
  uint8_t& code(int64_t column, int64_t row) { return palette_.codes.column(column)[first_ + row]; }
  std::span<float> table(int64_t across) {
    const int64_t place = problem_.blocks.place(down_, across);
    return std::span(palette_.tables)
        .subspan(static_cast<size_t>(place * entries_), static_cast<size_t>(entries_));
  }

  void find_unknowns(const ErrorMetric& metric, int64_t row) {
    unknowns_.clear();
    for (int64_t column : metric.order)
      unknowns_.push_back(static_cast<int32_t>(across_of(column) * entries_ + code(column, row)));
  }

  static Eigen::VectorXd solve(Eigen::MatrixXd system, const Eigen::VectorXd& target) {
    const double ridge = kRidge * system.trace() / static_cast<double>(system.cols());
    // An entry without codes has a zero row; a diagonal of 1 keeps its change at 0.
    for (int64_t u = 0; u < system.cols(); ++u)
      system(u, u) = system(u, u) > 0 ? system(u, u) + ridge : 1;
    return system.ldlt().solve(target);
  }

  void change_table(int64_t across, const Eigen::VectorXd& change) {
    const auto entries = table(across);
    for (int64_t e = 0; e < entries_; ++e)
      entries[static_cast<size_t>(e)] += static_cast<float>(change[e]);
    round_entries(entries);
    sort_entries(across, entries);
  }

  void round_entries(std::span<float> entries) const {
    std::vector<std::byte> stored(entries.size() * sizeof(float));
    encode(problem_.dtype, entries.data(), entries.size(), stored.data());
    decode(problem_.dtype, stored.data(), entries.size(), entries.data());
  }

  // Entries must ascend for nearest_entry(). Codes are renumbered with them, so the decoded values
  // do not change.
  void sort_entries(int64_t across, std::span<float> entries) {
    if (std::is_sorted(entries.begin(), entries.end())) return;
    std::vector<uint8_t> order(entries.size()), place(entries.size());
    std::iota(order.begin(), order.end(), uint8_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](uint8_t a, uint8_t b) { return entries[a] < entries[b]; });
    for (size_t e = 0; e < order.size(); ++e) place[order[e]] = static_cast<uint8_t>(e);
    std::sort(entries.begin(), entries.end());
    const int64_t begin = across * problem_.blocks.block_columns;
    for (int64_t c = begin; c < begin + problem_.blocks.block_columns; ++c)
      for (int64_t r = 0; r < rows(); ++r) code(c, r) = place[code(c, r)];
  }

  // Runs one sweep over the codes of a row; returns true if one changed. `gradient` is H·e of the
  // row.
  bool descend_row(const ErrorMetric& metric, int64_t row, float* gradient) {
    Eigen::Map<Eigen::VectorXf> slopes(gradient, metric.size);
    const View hessian = hessian_of(metric);
    bool changed = false;
    for (int64_t j = 0; j < metric.size; ++j) {
      const int64_t column = metric.order[static_cast<size_t>(j)];
      const auto entries = table(across_of(column));
      uint8_t& now = code(column, row);
      // The cost of a change c of this value is H_jj·c² − 2·c·(H·e)_j, so the best change is
      // (H·e)_j / H_jj.
      const float step = slopes[j] / hessian(j, j);
      const uint8_t best = nearest_entry(entries[now] + step, entries);
      const float change = entries[best] - entries[now];
      // The change of the cost, divided by H_jj. Only an improvement is accepted.
      if (change * (change - 2 * step) >= 0) continue;
      // Keeps the invariant slopes = H·e with the new error.
      slopes -= change * hessian.col(j);
      now = best;
      changed = true;
    }
    return changed;
  }

  const PaletteProblem& problem_;
  PaletteCodes& palette_;
  int64_t down_, first_, entries_;
  std::vector<int32_t> unknowns_;  // of the current row
};

// Calls visit(group, gradients, row) for each group; the group's gradients begin at row `row`.
template <class Visit>
void for_groups(const PaletteProblem& problem, PaletteCodes& palette, Visit visit) {
  const int64_t rows = problem.blocks.block_rows, all = problem.blocks.down();
  // Several groups per product, because a product of few rows uses the CPU poorly.
  const int64_t taken = std::max<int64_t>(1, kProductRows / rows);
  for (int64_t begin = 0; begin < all; begin += taken) {
    const int64_t end = std::min(begin + taken, all);
    std::vector<Rows> gradients;
    for (const ErrorMetric& metric : problem.metrics) {
      Rows errors((end - begin) * rows, metric.size);
      for (int64_t down = begin; down < end; ++down)
        RowGroup(problem, palette, down).errors(metric, (down - begin) * rows, errors);
      gradients.emplace_back(errors * hessian_of(metric));
    }
    for (int64_t down = begin; down < end; ++down)
      visit(RowGroup(problem, palette, down), gradients, (down - begin) * rows);
  }
}

}  // namespace

void refit_tables(const PaletteProblem& problem, PaletteCodes& palette) {
  for_groups(problem, palette, [](RowGroup group, const std::vector<Rows>& gradients, int64_t row) {
    group.refit(gradients, row);
  });
}

void descend_codes(const PaletteProblem& problem, PaletteCodes& palette) {
  for_groups(problem, palette, [](RowGroup group, std::vector<Rows>& gradients, int64_t row) {
    group.descend(gradients, row);
  });
}

}  // namespace moec
