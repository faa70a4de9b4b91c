// Reads each view that several exports of one checkpoint need only once.
//
// Each export is a side. It runs on a separate thread and announces the views that it will request,
// in order. Views with equal text are matched where the order of every side allows it. The first
// side of a shared view reads it and passes each tile to the sinks of all its sides. The other
// sides wait inside ViewSeries::next(); nothing is queued or copied. Each side reads its unshared
// views itself.
//
// Deadlock is impossible: all views have one common order that agrees with the order of every side,
// and a side waits only for sides at earlier views. So the side at the earliest view never waits
// for a waiting side. A side that fails or finishes must call leave().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backends/weights/views/weight_reader.h"

namespace moec {

// Merges the views that several sides request into one order.

// A view that one or several sides request.
struct SharedStep {
  std::string view;           // text of the view
  std::vector<size_t> sides;  // ascending; the first one reads
};

// Merges the lists of all sides. Each list element belongs to one step, and the order of the steps
// agrees with each list. The first two sides share as many steps as possible; each further side
// shares as many as possible with the merged order so far.
std::vector<SharedStep> match_views(std::span<const std::vector<std::string>> lists);

class SharedViews {
 public:
  struct Side {
    const WeightReader* reader = nullptr;  // of this side; must outlive the SharedViews
    std::vector<WeightView> views;
  };
  explicit SharedViews(std::vector<Side> sides);
  ~SharedViews();

  // Returns the reader of a side, for use on its thread. It delivers the announced views in order,
  // all of them or a prefix; other views are read without sharing. Bytes and reports equal those of
  // the side's own reader, with two exceptions: only the reading side counts `bytes_read` and
  // `peak_scratch`, and tiles have the length that the reading side requested. A failing sink ends
  // only its own side; a failed read ends all sides that wait for the view.
  const WeightReader& reader(size_t side) const;

  // Announces that the side requests no further views. Sides that wait for it continue and read the
  // views that they share with it themselves. The side's thread must call this on every exit path.
  void leave(size_t side);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
