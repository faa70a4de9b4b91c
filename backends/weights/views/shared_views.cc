#include "backends/weights/views/shared_views.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <unordered_map>

namespace moec {

namespace {

struct Pair {
  size_t step = 0, element = 0;
};

// Longest common subsequence, computed as the longest chain of equal pairs that ascends in both
// lists (Hunt and Szymanski, 1977). This is fast here: the lists are long, but few elements occur
// twice.
std::vector<Pair> common_subsequence(const std::vector<SharedStep>& steps,
                                     const std::vector<std::string>& list) {
  struct Link {
    Pair pair;
    size_t before = SIZE_MAX;  // link of the previous pair of the chain
  };
  std::unordered_map<std::string_view, std::vector<size_t>> places;
  for (size_t i = list.size(); i-- > 0;) places[list[i]].push_back(i);
  std::vector<Link> links;
  std::vector<size_t> ends;  // ends[n]: link that ends a chain of n + 1 pairs earliest in the list
  for (size_t step = 0; step < steps.size(); ++step) {
    const auto found = places.find(steps[step].view);
    if (found == places.end()) continue;
    for (const size_t element :
         found->second) {  // descending, so that a chain uses a step only once
      const auto end = std::partition_point(ends.begin(), ends.end(), [&](size_t link) {
        return links[link].pair.element < element;
      });
      links.push_back({{step, element}, end == ends.begin() ? SIZE_MAX : *(end - 1)});
      if (end == ends.end())
        ends.push_back(links.size() - 1);
      else
        *end = links.size() - 1;
    }
  }
  std::vector<Pair> chain;
  for (size_t link = ends.empty() ? SIZE_MAX : ends.back(); link != SIZE_MAX;
       link = links[link].before)
    chain.push_back(links[link].pair);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

void add_side(size_t side, const std::vector<std::string>& list, std::vector<SharedStep>& steps) {
  std::vector<SharedStep> merged;
  Pair at;
  const auto copy_until = [&](const Pair& end) {
    while (at.step < end.step) merged.push_back(std::move(steps[at.step++]));
    while (at.element < end.element) merged.push_back({list[at.element++], {side}});
  };
  for (const Pair& pair : common_subsequence(steps, list)) {
    copy_until(pair);
    merged.push_back(std::move(steps[at.step++]));
    merged.back().sides.push_back(side);
    ++at.element;
  }
  copy_until({steps.size(), list.size()});
  steps = std::move(merged);
}

}  // namespace

std::vector<SharedStep> match_views(std::span<const std::vector<std::string>> lists) {
  std::vector<SharedStep> steps;
  for (size_t side = 0; side < lists.size(); ++side) add_side(side, lists[side], steps);
  return steps;
}

namespace {

// One side of a shared read: the sink of the tiles and its status.
struct Taker {
  const TileSink& sink;
  StreamReport& report;
  Status status;
  bool done = false;
};

// Reads a view for all takers; the first one is the reading side. A taker whose sink failed gets no
// further tiles.
void deliver(ViewSeries& from, std::span<Taker* const> takers) {
  const TileSink all = [&](std::span<const std::byte> tile) -> Status {
    bool wanted = false;
    for (Taker* taker : takers) {
      if (taker->status) taker->status = taker->sink(tile);
      wanted = wanted || taker->status.has_value();
    }
    return wanted ? Status() : takers.front()->status;
  };
  StreamReport report;
  const Status read = from.next(all, report);
  for (Taker* taker : takers) {
    if (taker->status && !read) taker->status = read;
    taker->report += report;
    report.bytes_read = report.peak_scratch = 0;
  }
}

}  // namespace

struct SharedViews::Impl {
  struct SideState {
    const WeightReader* own = nullptr;
    std::vector<std::string> views;
    std::vector<size_t> steps;  // per element of `views`: its index in the common order
    size_t asked = 0;           // number of views that were already put into a series
    size_t at = 0;              // the side has finished all steps before this one
    Taker* waits = nullptr;     // set while the side waits at step `at`
  };
  class Series;

  explicit Impl(std::vector<Side> given) {
    std::vector<std::vector<std::string>> lists;
    for (const Side& side : given) {
      std::vector<std::string>& list = lists.emplace_back();
      for (const WeightView& view : side.views) list.push_back(to_string(view));
    }
    steps = match_views(lists);
    for (size_t i = 0; i < given.size(); ++i)
      sides.push_back({given[i].reader, std::move(lists[i]), {}});
    for (size_t step = 0; step < steps.size(); ++step)
      for (const size_t side : steps[step].sides) sides[side].steps.push_back(step);
    for (size_t i = 0; i < sides.size(); ++i)
      readers.push_back(
          given[i].reader->with_series([this, i](std::vector<WeightView> views, size_t tile_bytes) {
            return series(i, std::move(views), tile_bytes);
          }));
  }

  bool reads(size_t side, size_t step) const { return steps[step].sides.front() == side; }

  bool announced(const SideState& side, const std::vector<WeightView>& views) const {
    // `side.asked` is at most side.views.size(), so the difference does not wrap around.
    if (views.size() > side.views.size() - side.asked) return false;
    for (size_t i = 0; i < views.size(); ++i)
      if (to_string(views[i]) != side.views[side.asked + i]) return false;
    return true;
  }

  Result<ViewSeries> series(size_t index, std::vector<WeightView> views, size_t tile_bytes);

  // Waits until every other side of the step has reached it. Returns the takers of the sides that
  // wait at it.
  std::vector<Taker*> gather(size_t step) {
    std::vector<Taker*> takers;
    std::unique_lock lock(mutex);
    for (const size_t index : std::span(steps[step].sides).subspan(1)) {
      const SideState& side = sides[index];
      // If `side.at` is greater than `step`, the side has called leave().
      moved.wait(lock, [&] { return side.at > step || (side.at == step && side.waits); });
      if (side.at == step) takers.push_back(side.waits);
    }
    return takers;
  }

  void pass(size_t side, size_t step, std::span<Taker* const> served) {
    {
      const std::lock_guard lock(mutex);
      for (Taker* taker : served) taker->done = true;
      sides[side].at = step + 1;
      sides[side].waits = nullptr;
    }
    moved.notify_all();
  }

  // Returns false if the reading side passed the step without serving this one.
  bool wait_for_reader(size_t index, size_t step, Taker& taker) {
    SideState& side = sides[index];
    const SideState& reader = sides[steps[step].sides.front()];
    std::unique_lock lock(mutex);
    side.at = step;
    side.waits = &taker;
    moved.notify_all();
    moved.wait(lock, [&] { return taker.done || reader.at > step; });
    side.waits = nullptr;
    return taker.done;
  }

  std::vector<SharedStep> steps;
  std::vector<SideState> sides;
  std::vector<WeightReader> readers;
  std::mutex mutex;  // guards `at`, `waits` and all waiting takers
  std::condition_variable moved;
};

// The next `views.size()` views of a side. The views that this side reads form a separate series,
// so that they are prefetched while the side waits for other sides.
class SharedViews::Impl::Series : public ViewSeries::Source {
 public:
  Series(Impl& shared, size_t side, std::vector<WeightView> views, size_t tile_bytes,
         ViewSeries own)
      : shared_(shared),
        side_(side),
        first_(shared.sides[side].asked),
        views_(std::move(views)),
        tile_bytes_(tile_bytes),
        own_(std::move(own)) {}

  Status next(const TileSink& sink, StreamReport& report) override {
    const size_t view = next_++;
    const size_t step = shared_.sides[side_].steps[first_ + view];
    Taker taker{sink, report, {}};
    if (shared_.reads(side_, step)) {
      std::vector<Taker*> takers = shared_.gather(step);
      takers.insert(takers.begin(), &taker);
      deliver(own_, takers);
      shared_.pass(side_, step, takers);
    } else {
      const bool served = shared_.wait_for_reader(side_, step, taker);
      if (!served)
        taker.status = shared_.sides[side_].own->stream(views_[view], tile_bytes_, sink, report);
      shared_.pass(side_, step, {});
    }
    return std::move(taker.status);
  }

 private:
  Impl& shared_;
  size_t side_, first_;
  std::vector<WeightView> views_;
  size_t tile_bytes_;
  ViewSeries own_;
  size_t next_ = 0;
};

Result<ViewSeries> SharedViews::Impl::series(size_t index, std::vector<WeightView> views,
                                             size_t tile_bytes) {
  SideState& side = sides[index];
  if (!announced(side, views)) return side.own->series(std::move(views), tile_bytes);
  std::vector<WeightView> own;
  for (size_t i = 0; i < views.size(); ++i)
    if (reads(index, side.steps[side.asked + i])) own.push_back(views[i]);
  MOEC_ASSIGN(ViewSeries read, side.own->series(std::move(own), tile_bytes));
  const size_t count = views.size();
  auto shared =
      std::make_unique<Series>(*this, index, std::move(views), tile_bytes, std::move(read));
  side.asked += count;
  return ViewSeries(std::move(shared));
}

SharedViews::SharedViews(std::vector<Side> sides) : impl_(new Impl(std::move(sides))) {}
SharedViews::~SharedViews() = default;

const WeightReader& SharedViews::reader(size_t side) const { return impl_->readers[side]; }

// SIZE_MAX - 1, because pass() adds 1; `at` is then past every step.
void SharedViews::leave(size_t side) { impl_->pass(side, SIZE_MAX - 1, {}); }

}  // namespace moec
