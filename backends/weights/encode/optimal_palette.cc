// A palette divides the sorted values into clusters of neighbours; its entries are their means. The
// error of a division is Σ w·v² minus its gain, the sum of (Σ w·v)² / Σ w over the clusters.
// Dynamic programming over the clusters finds the division with the largest gain.
//
// The last cut of the best division is monotonic in the end of the divided range, which allows
// divide and conquer: O(entries · n log n) instead of O(entries · n²).
//
// Groups of weights have thousands of values, so the search is narrowed further without losing the
// optimum. Values are merged into bins. Moving the weight of a bin to its two ends, with the same
// mean, can only raise the gain of a division: for given entries, the error of a value minus its
// square is concave in it. So the merged values bound the gain of every division whose cut number j
// lies in a given bin. Bins whose bound is below the gain of a known division contain no cut of the
// best one. The remaining range is divided into finer bins until few cuts remain.
#include "backends/weights/encode/optimal_palette.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace moec {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();
// With fewer candidate cuts per entry than this, binning costs more than it saves.
constexpr size_t kFewCuts = 64;
// Upper bound of the rounding errors of compared gains, relative to the largest gain.
constexpr double kRounding = 1e-11;

// Positions [begin, end].
struct Window {
  size_t begin = 0, end = 0;
};

// Prefix sums of weights and of weighted values before each position.
struct Sums {
  std::vector<double> weight, moment;

  void add(double value, double amount) {
    weight.push_back(weight.back() + amount);
    moment.push_back(moment.back() + amount * value);
  }
  size_t size() const { return weight.size() - 1; }
  // Gain of the cluster [begin, end).
  double gain(size_t begin, size_t end) const {
    const double mass = weight[end] - weight[begin], sum = moment[end] - moment[begin];
    return mass > 0 ? sum * sum / mass : 0;
  }
};

Sums empty_sums(size_t size) {
  Sums sums;
  sums.weight.reserve(size + 1);
  sums.moment.reserve(size + 1);
  sums.weight.push_back(0);
  sums.moment.push_back(0);
  return sums;
}

// One row of the dynamic program: for each position i of a window, the gain of the best division of
// the positions before i into j clusters, and the start of its last cluster.
struct Row {
  Window window;
  std::vector<double> gain;
  std::vector<uint32_t> cut;

  double gain_at(size_t position) const { return gain[position - window.begin]; }
  void end_at(size_t last) {
    window.end = last;
    gain.resize(last - window.begin + 1);
    cut.resize(last - window.begin + 1);
  }
};

// Tests whether a division with at least `gain` can be cut at a position. The part before the cut
// has the gain in a row; the part after it gains at most Σ w·v².
struct Enough {
  double gain = 0;
  std::vector<double> behind;  // Σ w·v² from each position on

  bool at(size_t position, double in_front) const { return in_front + behind[position] >= gain; }
};

// Computes the row for one more cluster than `before` has.
class NextRow {
 public:
  NextRow(const Sums& sums, const Row& before, Window window)
      : sums_(sums), before_(before), row_{window, {}, {}} {
    const size_t size = window.end - window.begin + 1;
    row_.gain.assign(size, kImpossible);
    row_.cut.assign(size, 0);
  }

  Row fill() {
    solve(row_.window.begin, row_.window.end, before_.window.begin, before_.window.end);
    return std::move(row_);
  }

  // Shortens the window to the positions at which the required gain is possible. The loss in front
  // of a cut grows with its position, so binary search applies.
  void limit(const Enough& enough) {
    size_t low = before_.window.begin, high = before_.window.end;
    size_t last = row_.window.begin, end = row_.window.end;
    while (last < end) {
      const size_t middle = last + (end - last + 1) / 2;
      const size_t cut = best_cut(middle, low, std::min(high, middle));
      const bool possible = enough.at(middle, row_.gain_at(middle));
      (possible ? last : end) = possible ? middle : middle - 1;
      (possible ? low : high) = cut;
    }
    row_.end_at(last);
  }

 private:
  // Computes positions [first, last], whose cuts lie in [low, high].
  void solve(size_t first, size_t last, size_t low, size_t high) {
    const size_t middle = first + (last - first) / 2;
    const size_t cut = best_cut(middle, low, std::min(high, middle));
    if (middle > first) solve(first, middle - 1, low, cut);
    if (middle < last) solve(middle + 1, last, cut, high);
  }

  size_t best_cut(size_t end, size_t low, size_t high) {
    double best = kImpossible;
    size_t cut = low;
    for (size_t begin = low; begin <= high; ++begin) {
      const double gain = before_.gain_at(begin) + sums_.gain(begin, end);
      if (gain > best) {
        best = gain;
        cut = begin;
      }
    }
    row_.gain[end - row_.window.begin] = best;
    row_.cut[end - row_.window.begin] = static_cast<uint32_t>(cut);
    return cut;
  }

  const Sums& sums_;
  const Row& before_;
  Row row_;
};

Row first_row(const Sums& sums, Window window) {
  Row first{window, {}, {}};
  for (size_t end = window.begin; end <= window.end; ++end) {
    first.gain.push_back(sums.gain(0, end));
    first.cut.push_back(0);
  }
  return first;
}

// Computes the rows for 1 to windows.size() clusters. The last row covers the positions of the last
// window.
std::vector<Row> fill_rows(const Sums& sums, const std::vector<Window>& windows) {
  std::vector<Row> rows{first_row(sums, windows[0])};
  for (size_t j = 1; j < windows.size(); ++j)
    rows.push_back(NextRow(sums, rows.back(), windows[j]).fill());
  return rows;
}

// As above, but skips positions at which no division with enough gain can be cut.
std::vector<Row> fill_rows(const Sums& sums, const std::vector<Window>& windows,
                           const Enough& enough) {
  std::vector<Row> rows{first_row(sums, windows[0])};
  size_t last = windows[0].end;
  while (last > windows[0].begin && !enough.at(last, rows[0].gain_at(last))) --last;
  rows[0].end_at(last);
  for (size_t j = 1; j < windows.size(); ++j) {
    const size_t begin = std::max(windows[j].begin, rows.back().window.begin);
    NextRow next(sums, rows.back(), {begin, std::max(begin, windows[j].end)});
    next.limit(enough);
    rows.push_back(next.fill());
  }
  return rows;
}

// Returns the cuts of the best division of all positions: the end of each cluster.
std::vector<size_t> trace(const std::vector<Row>& rows, size_t end) {
  std::vector<size_t> ends(rows.size());
  for (size_t j = rows.size(); j-- > 0;) {
    ends[j] = end;
    end = rows[j].cut[end - rows[j].window.begin];
  }
  return ends;
}

Sums sums_of(const Histogram& histogram) {
  Sums sums = empty_sums(histogram.values.size());
  for (size_t i = 0; i < histogram.values.size(); ++i)
    sums.add(histogram.values[i], histogram.weights[i]);
  return sums;
}

// One window per cut; the last one is the end of the values.
using Windows = std::vector<Window>;

// Windows of all cuts that leave at least one value per cluster.
Windows all_cuts(size_t size, size_t clusters) {
  Windows windows;
  for (size_t j = 1; j < clusters; ++j) windows.push_back({j, size - clusters + j});
  windows.push_back({size, size});
  return windows;
}

// ---- Bins --------------------------------------------------------------------------------------

size_t count_cuts(const Windows& windows) {
  size_t cuts = 0;
  for (const Window& window : windows) cuts += window.end - window.begin + 1;
  return cuts;
}

// Returns the start of each bin, and the number of values. Bins start only at cuts of the windows,
// including the first and last one of each. The other bins have about equal shares of √(weight ×
// gap), so that bins are narrow where entries are dense.
std::vector<size_t> bin_starts(const Histogram& histogram, const Windows& windows, size_t bins) {
  enum : uint8_t { kClosed, kOpen, kForced };
  const size_t size = histogram.values.size();
  std::vector<uint8_t> places(size + 1, kClosed);
  for (const Window& window : windows)
    std::fill(places.begin() + static_cast<std::ptrdiff_t>(window.begin),
              places.begin() + static_cast<std::ptrdiff_t>(window.end) + 1, kOpen);
  for (const Window& window : windows) places[window.begin] = places[window.end] = kForced;
  std::vector<double> passed(size, 0);
  for (size_t i = 1; i < size; ++i) {
    passed[i] = passed[i - 1];
    if (places[i] != kClosed)
      passed[i] +=
          std::sqrt(histogram.weights[i - 1] * (histogram.values[i] - histogram.values[i - 1]));
  }
  const double share = passed.back() / static_cast<double>(bins);
  std::vector<size_t> starts{0};
  double next = share;
  for (size_t i = 1; i < size; ++i) {
    if (places[i] != kForced && (places[i] == kClosed || passed[i] < next)) continue;
    starts.push_back(i);
    next = passed[i] + share;
  }
  starts.push_back(size);
  return starts;
}

// Returns the position of a cut among the ends of the bins: before a bin, or between its two ends.
size_t merged_position(const std::vector<size_t>& starts, size_t cut) {
  const auto bin =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), cut) - starts.begin() - 1);
  return 2 * bin + (starts[bin] == cut ? 0 : 1);
}

// Both ends of each bin with their parts of the bin's weight: positions 2b and 2b + 1.
struct Ends {
  Sums forward, backward;
  Enough enough, enough_backward;
};

// Σ w·v² from each position on.
std::vector<double> squares_behind(const std::vector<double>& values,
                                   const std::vector<double>& weights) {
  std::vector<double> behind(values.size() + 1, 0);
  for (size_t i = values.size(); i-- > 0;)
    behind[i] = behind[i + 1] + weights[i] * values[i] * values[i];
  return behind;
}

Ends ends_of(const Histogram& histogram, const std::vector<size_t>& starts) {
  const size_t bins = starts.size() - 1;
  std::vector<double> values, weights;
  for (size_t b = 0; b < bins; ++b) {
    const double low = histogram.values[starts[b]], high = histogram.values[starts[b + 1] - 1];
    double mass = 0, excess = 0;  // Σ w and Σ w·(v − low)
    for (size_t i = starts[b]; i < starts[b + 1]; ++i) {
      mass += histogram.weights[i];
      excess += histogram.weights[i] * (histogram.values[i] - low);
    }
    const double upper = high > low ? std::min(mass, excess / (high - low)) : 0;
    values.insert(values.end(), {low, high});
    weights.insert(weights.end(), {mass - upper, upper});
  }
  Ends ends{empty_sums(values.size()), empty_sums(values.size()), {}, {}};
  for (size_t i = 0; i < values.size(); ++i) {
    ends.forward.add(values[i], weights[i]);
    ends.backward.add(values[values.size() - 1 - i], weights[values.size() - 1 - i]);
  }
  ends.enough.behind = squares_behind(values, weights);
  std::reverse(values.begin(), values.end());
  std::reverse(weights.begin(), weights.end());
  ends.enough_backward.behind = squares_behind(values, weights);
  return ends;
}

// ---- The division ------------------------------------------------------------------------------

using Cuts = std::vector<size_t>;  // end of each cluster

double gain_of(const Sums& sums, const Cuts& ends) {
  double gain = 0;
  for (size_t j = 0; j < ends.size(); ++j) gain += sums.gain(j == 0 ? 0 : ends[j - 1], ends[j]);
  return gain;
}

// Moves each cut to the midpoint between the adjacent means, a few times (Lloyd's iteration).
Cuts settled(const Histogram& histogram, const Sums& sums, Cuts ends) {
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> means;
    for (size_t j = 0; j < ends.size(); ++j) {
      const size_t begin = j == 0 ? 0 : ends[j - 1];
      const double mass = sums.weight[ends[j]] - sums.weight[begin];
      means.push_back(mass > 0 ? (sums.moment[ends[j]] - sums.moment[begin]) / mass
                               : histogram.values[std::min(begin, histogram.values.size() - 1)]);
    }
    const Cuts last = ends;
    for (size_t j = 0; j + 1 < ends.size(); ++j) {
      const double middle = (means[j] + means[j + 1]) / 2;
      ends[j] = static_cast<size_t>(
          std::lower_bound(histogram.values.begin(), histogram.values.end(), middle) -
          histogram.values.begin());
    }
    if (ends == last) break;
  }
  return ends;
}

// Gains of divisions of the bins' ends, which bound those of the values: for the clusters before a
// position, and for those after it.
struct Bounds {
  std::vector<Row> before, after;
};

Bounds bound(const Ends& ends, const std::vector<size_t>& starts, const Windows& windows) {
  const size_t size = ends.forward.size(), clusters = windows.size();
  Windows forward, backward;
  for (const Window& window : windows)
    forward.push_back({merged_position(starts, window.begin), merged_position(starts, window.end)});
  for (size_t j = clusters - 1; j-- > 0;)
    backward.push_back({size - forward[j].end, size - forward[j].begin});
  std::vector<Row> after = fill_rows(ends.backward, backward, ends.enough_backward);
  for (size_t j = 0; j + 1 < clusters; ++j) {
    const Window& window = after[clusters - 2 - j].window;
    forward[j] = {size - window.end, size - window.begin};
  }
  return {fill_rows(ends.forward, forward, ends.enough), std::move(after)};
}

// Returns the part of a window in which cut `j` of a division with a gain of at least `enough` can
// lie.
Window narrowed(const Bounds& bounds, const std::vector<size_t>& starts, size_t j, double enough) {
  const Row& before = bounds.before[j];
  const Row& after = bounds.after[bounds.after.size() - 1 - j];
  const size_t size = 2 * (starts.size() - 1);
  Window window{starts.back(), 0};
  for (size_t position = before.window.begin; position <= before.window.end; ++position) {
    if (before.gain_at(position) + after.gain_at(size - position) < enough) continue;
    const size_t bin = position / 2;
    const bool inside = position % 2 == 1;
    window.begin = std::min(window.begin, starts[bin] + (inside ? 1 : 0));
    window.end = std::max(window.end, inside ? starts[bin + 1] - 1 : starts[bin]);
  }
  return window;
}

// Windows that contain the cuts of the best division, and the cuts of the best known one.
struct Narrowing {
  Windows windows;
  Cuts known;
};

// Guesses cuts from the optimal density of many entries, which is proportional to the cube root of
// the weight density.
Cuts guessed_cuts(const Histogram& histogram, size_t clusters) {
  const size_t size = histogram.values.size(), strides = 8 * clusters;
  std::vector<double> passed{0};
  auto place = [&](size_t stride) { return stride * (size - 1) / strides; };
  for (size_t s = 0; s < strides; ++s) {
    double mass = 0;
    for (size_t i = place(s); i < place(s + 1); ++i) mass += histogram.weights[i];
    const double width = histogram.values[place(s + 1)] - histogram.values[place(s)];
    passed.push_back(passed.back() + std::cbrt(mass * width * width));
  }
  Cuts cuts;
  for (size_t j = 1, s = 0; j < clusters; ++j) {
    const double share = passed.back() * static_cast<double>(j) / static_cast<double>(clusters);
    while (s < strides && passed[s] < share) ++s;
    cuts.push_back(std::clamp(place(s), j, size - clusters + j));
  }
  cuts.push_back(size);
  return cuts;
}

// Narrows the windows so that they still contain the cuts of the best division.
Narrowing narrowed(const Histogram& histogram, const Sums& sums, const Narrowing& last) {
  const size_t clusters = last.windows.size();
  const std::vector<size_t> starts =
      bin_starts(histogram, last.windows, std::max<size_t>(128, 4 * clusters));
  Ends ends = ends_of(histogram, starts);
  const double rounding = kRounding * ends.enough.behind[0];
  ends.enough.gain = ends.enough_backward.gain = gain_of(sums, last.known) - rounding;
  const Bounds bounds = bound(ends, starts, last.windows);
  Cuts cuts = trace(bounds.before, ends.forward.size());
  for (size_t& cut : cuts) cut = starts[(cut + 1) / 2];
  Narrowing next{{}, settled(histogram, sums, cuts)};
  const double enough = gain_of(sums, next.known) - rounding;
  for (size_t j = 0; j + 1 < clusters; ++j)
    next.windows.push_back(narrowed(bounds, starts, j, enough));
  next.windows.push_back(last.windows.back());
  return next;
}

// Returns windows that contain the cuts of the best division and are small enough to try all cuts.
Windows find_windows(const Histogram& histogram, const Sums& sums, size_t clusters) {
  Narrowing found{all_cuts(histogram.values.size(), clusters), {}};
  while (clusters > 1 && count_cuts(found.windows) > kFewCuts * clusters) {
    if (found.known.empty())
      found.known = settled(histogram, sums, guessed_cuts(histogram, clusters));
    const size_t before = count_cuts(found.windows);
    found = narrowed(histogram, sums, found);
    if (2 * count_cuts(found.windows) > before) break;
  }
  return std::move(found.windows);
}

}  // namespace

std::vector<double> optimal_palette(const Histogram& histogram, int entries) {
  const auto clusters = static_cast<size_t>(entries);
  const size_t size = histogram.values.size();
  if (size <= clusters) {
    std::vector<double> palette = histogram.values;
    palette.resize(clusters, histogram.values.back());
    return palette;
  }
  double mass = 0, moment = 0;
  for (size_t i = 0; i < size; ++i) {
    mass += histogram.weights[i];
    moment += histogram.weights[i] * histogram.values[i];
  }
  // Centre the values on their mean: a large mean would dominate the gains, and rounding would hide
  // their differences.
  const double mean = moment / mass;
  Histogram centred = histogram;
  for (double& value : centred.values) value -= mean;
  const Sums sums = sums_of(centred);
  const std::vector<Row> rows = fill_rows(sums, find_windows(centred, sums, clusters));
  std::vector<double> palette;
  size_t begin = 0;
  for (size_t end : trace(rows, size)) {
    palette.push_back(mean + (sums.moment[end] - sums.moment[begin]) /
                                 (sums.weight[end] - sums.weight[begin]));
    begin = end;
  }
  return palette;
}

double palette_error(const Histogram& histogram, const std::vector<double>& entries) {
  double error = 0;
  size_t nearest = 0;
  for (size_t i = 0; i < histogram.values.size(); ++i) {
    const double value = histogram.values[i];
    while (nearest + 1 < entries.size() &&
           std::abs(value - entries[nearest + 1]) <= std::abs(value - entries[nearest]))
      ++nearest;
    const double difference = value - entries[nearest];
    error += histogram.weights[i] * difference * difference;
  }
  return error;
}

}  // namespace moec
