#include "backends/weights/encode/palette_refit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <numeric>

#include "backends/weights/encode/palette.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// Row-major: a row is a row of weights.
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const Eigen::MatrixXf>;

constexpr int kSweeps = 4;
// Keeps the equations solvable where codes always occur together, relative to the mean diagonal.
constexpr double kRidge = 1e-7;
// Rows whose gradients are computed in one product, and rows of H that stay in the cache.
constexpr int64_t kProductRows = 128, kStrip = 64;

View hessian_of(const ErrorMetric& metric) {
  return {metric.hessian.data(), metric.size, metric.size};
}

// Of one row of weights, with Z the choice of an entry by each column: Zᵀ·H·Z. `unknowns` are the
// chosen entries in the order of the metric, below `count`.
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
    sums_.setZero(rows, to.cols());
    for (int64_t j = part.column_begin; j < part.column_end; ++j)
      sums_.col(unknowns[static_cast<size_t>(j)]) += hessian.col(j).segment(part.row_begin, rows);
    for (int64_t i = 0; i < rows; ++i)
      to.col(unknowns[static_cast<size_t>(part.row_begin + i)]) +=
          sums_.row(i).transpose().cast<double>();
  }

  Eigen::MatrixXf sums_;
  Eigen::MatrixXd inside_, beside_;  // squares on the diagonal of H, and what lies on one side
};

// The rows of weights that share tables, and their unknown entries: those of the first block of
// columns, of the second, …
class RowGroup {
 public:
  RowGroup(const PaletteProblem& problem, PaletteCodes& palette, int64_t down)
      : problem_(problem),
        palette_(palette),
        down_(down),
        first_(down * problem.blocks.block_rows),
        entries_(int64_t{1} << problem.bits) {}

  // E in the order of the metric; row `to` of the result is the group's first one.
  void errors(const ErrorMetric& metric, int64_t to, Rows& result) {
    for (int64_t j = 0; j < metric.size; ++j) {
      const int64_t column = metric.order[static_cast<size_t>(j)];
      const auto entries = table(across_of(column));
      const float* values = problem_.weights.column(column) + first_;
      for (int64_t r = 0; r < rows(); ++r) result(to + r, j) = values[r] - entries[code(column, r)];
    }
  }

  // The rows of E·H of each metric, from row `from` on.
  void refit(const std::vector<Rows>& gradients, int64_t from) {
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

  // One sweep; whether a code changed. gradient = H·e of the row.
  bool descend_row(const ErrorMetric& metric, int64_t row, float* gradient) {
    Eigen::Map<Eigen::VectorXf> slopes(gradient, metric.size);
    const View hessian = hessian_of(metric);
    bool changed = false;
    for (int64_t j = 0; j < metric.size; ++j) {
      const int64_t column = metric.order[static_cast<size_t>(j)];
      const auto entries = table(across_of(column));
      uint8_t& now = code(column, row);
      const float step = slopes[j] / hessian(j, j);
      const uint8_t best = nearest_entry(entries[now] + step, entries);
      const float change = entries[best] - entries[now];
      if (change * (change - 2 * step) >= 0) continue;
      slopes -= change * hessian.col(j);
      now = best;
      changed = true;
    }
    return changed;
  }

  const PaletteProblem& problem_;
  PaletteCodes& palette_;
  int64_t down_, first_, entries_;
  std::vector<int32_t> unknowns_;  // of a row
};

// Calls visit(group, gradients, row) for each group of rows, whose gradients begin at a row.
template <class Visit>
void for_groups(const PaletteProblem& problem, PaletteCodes& palette, Visit visit) {
  const int64_t rows = problem.blocks.block_rows, all = problem.blocks.down();
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
