// What several exports of one checkpoint want is read once for all of them.
//
// Each export is a side, on a thread of its own, that says beforehand which views it will ask for,
// and in which order. Views of the same text are matched where that keeps every side's order. A
// view of several sides is read by the first of them, which hands each tile to the sinks of all
// while the others wait inside ViewSeries::next(): nothing is queued or copied. Every other view is
// read by its side alone.
//
// Sides cannot wait for each other in a circle: all views stand in one order that agrees with every
// side's own, and a side waits at a view only for sides that are at earlier ones. So the side at
// the earliest view never waits for one that waits, and one that fails or is finished leaves.
#pragma once

#include "backends/weights/weight_reader.h"

namespace moec {

class SharedViews {
 public:
  struct Side {
    const WeightReader* reader = nullptr;  // that it would use alone; must outlive all of this
    std::vector<WeightView> views;
  };
  explicit SharedViews(std::vector<Side> sides);
  ~SharedViews();

  // For one thread, which asks for the side's views, all of them or the first few. Series of other
  // views are read alone. What is delivered, and its report, is as from the side's own reader, but
  // `bytes_read` and `peak_scratch` are told to the side alone that reads. Tiles are as long as the
  // reading side asked for. A sink that fails ends its own side only; a failed read ends all sides
  // that wait for it.
  const WeightReader& reader(size_t side) const;

  // The side asks for nothing further: who waits for it goes on without it, reading alone what it
  // would have read for them. For the side's own thread, which calls it however it ends.
  void leave(size_t side);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
