// Reads views that several exports of one checkpoint ask for once for all of them.
//
// Each export is a side. It runs on its own thread and announces which views it will ask for, in
// which order. Views with the same text are matched as far as the order of every side allows. A
// view of several sides is read by the first of them, which gives each tile to the sinks of all
// while the others wait inside ViewSeries::next(); nothing is queued or copied. Every other view is
// read by its side alone.
//
// There is no deadlock: all views have one common order that agrees with the order of every side,
// and a side at a view waits only for sides at earlier views. So the side at the earliest view
// never waits for a side that waits. A side that fails or is finished must call leave().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backends/weights/views/weight_reader.h"

namespace moec {

// Merges the views that several sides ask for into one order.

// A view that one or several sides ask for.
struct SharedStep {
  std::string view;           // its text
  std::vector<size_t> sides;  // ascending; the first one reads
};

// Merges the lists of all sides: each element of a list belongs to one step, and the order of the
// steps agrees with each list. Two sides share as many steps as possible; each further side shares
// as many as possible with the merged order of those before it.
std::vector<SharedStep> match_views(std::span<const std::vector<std::string>> lists);

class SharedViews {
 public:
  struct Side {
    const WeightReader* reader = nullptr;  // of the side alone; must outlive the SharedViews
    std::vector<WeightView> views;
  };
  explicit SharedViews(std::vector<Side> sides);
  ~SharedViews();

  // The reader of a side, for its thread. It delivers the announced views, all of them or the first
  // few, in order; other views are read without sharing. Bytes and reports are the same as from the
  // side's own reader, except that only the side that reads gets `bytes_read` and `peak_scratch`,
  // and that tiles have the length that the reading side asked for. A failing sink ends its own
  // side only; a failed read ends all sides that wait for the view.
  const WeightReader& reader(size_t side) const;

  // Says that the side will ask for no further view. Sides that wait for it stop waiting, and read
  // themselves what it would have read for them. The side's thread must call this however it ends.
  void leave(size_t side);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
