#include "backends/weights/views/stream_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "backends/weights/views/convert.h"
#include "ir/base/invariant.h"
#include "ir/base/refusals.h"

namespace moec {
namespace {

// In smaller blocks, the overhead of a read call would exceed the time to read its bytes.
constexpr uint64_t kLeastBlockBytes = uint64_t{64} << 10;

// Part of a view that is read at once.
struct Block {
  size_t view = 0;  // index in the series
  Region region;
  uint64_t elements = 0;
};

// Iterates over the blocks of all views, in order.
class Blocks {
 public:
  explicit Blocks(std::span<const Cut> cuts) : cuts_(cuts) {}

  bool done() const { return cuts_.empty(); }
  Block next() {
    const Cut& cut = cuts_.front();
    Block block;
    block.view = view_;
    const uint64_t end = std::min(cut.elements, at_ + cut.block);
    const int64_t next = first_region(cut.node->type().dims, static_cast<int64_t>(at_),
                                      static_cast<int64_t>(end), block.region);
    block.elements = static_cast<uint64_t>(next) - at_;
    at_ = static_cast<uint64_t>(next);
    if (at_ == cut.elements) advance();
    return block;
  }

 private:
  void advance() {
    cuts_ = cuts_.subspan(1);
    ++view_;
    at_ = 0;
  }

  std::span<const Cut> cuts_;  // of the current and later views
  size_t view_ = 0;
  uint64_t at_ = 0;
};

Status read_block(const Cut& cut, const Block& block, std::byte* to, ReadContext& context) {
  MOEC_TRY(cut.node->read_packed(block.region, to, context));
  context.report.elements += block.elements;
  context.report.nonfinite += count_nonfinite(cut.node->type().dtype, to, block.elements);
  return {};
}

Status deliver(const Cut& cut, const Block& block, const std::byte* from, const TileSink& sink) {
  const size_t width = cut.node->width();
  const std::span bytes(from, static_cast<size_t>(block.elements) * width);
  const size_t tile = static_cast<size_t>(cut.tile) * width;
  for (size_t at = 0; at < bytes.size(); at += tile)
    MOEC_TRY(sink(bytes.subspan(at, std::min(tile, bytes.size() - at))));
  return {};
}

ReadContext new_context(const std::vector<PayloadFile>& files, const ReaderOptions& options,
                        StreamReport& report) {
  // Each context checks each file once for changes, so it has a separate flag per file.
  return {files, options, report, {}, std::vector<bool>(files.size()), nullptr};
}

Status stream_alone(const Cut& cut, const std::vector<PayloadFile>& files,
                    const ReaderOptions& options, const TileSink& sink, StreamReport& report) {
  ReadContext context = new_context(files, options, report);
  auto buffer = context.scratch.take(static_cast<size_t>(cut.block_bytes()));
  Status status;
  for (Blocks blocks({&cut, 1}); status && !blocks.done();) {
    const Block block = blocks.next();
    status = read_block(cut, block, buffer.data(), context);
    if (status) status = deliver(cut, block, buffer.data(), sink);
  }
  report.peak_scratch = std::max(report.peak_scratch, context.scratch.peak());
  return status;
}

}  // namespace

// Ring of slots: block n occupies slot n % slots_.size() from when a reader claims it until it is
// delivered. Readers claim blocks in order.
class CutSeries::Readers {
 public:
  Readers(std::span<const Cut> cuts, const std::vector<PayloadFile>& files,
          const ReaderOptions& options, const Slots& slots)
      : cuts_(cuts), files_(files), options_(options), blocks_(cuts), slots_(slots.count) {
    for (Slot& slot : slots_) slot.data.reset(new std::byte[slots.block_bytes]);
    for (uint64_t i = 0; i < slots.count; ++i)
      if (!readers_.start([this] { read(); })) break;
  }
  ~Readers() { stop(); }

  // Returns false if the system could not start even one thread.
  bool started() const { return readers_.size() > 0; }

  // Delivers the blocks of a view in order. Fails with the error of the first failed block in this
  // order, so the error does not depend on the number of readers.
  Status deliver_view(size_t view, const TileSink& sink, StreamReport& report) {
    while (Slot* slot = wait_for_next(view)) {
      report += slot->report;
      // Checked after the report is added, so that a failed block is counted too.
      MOEC_TRY(std::move(slot->status));
      MOEC_TRY(deliver(cuts_[view], slot->block, slot->data.get(), sink));
      free_next();
    }
    return {};
  }

 private:
  struct Slot {
    std::unique_ptr<std::byte[]> data;
    Block block;
    StreamReport report;
    Status status;
    bool full = false;
  };

  void read() {
    StreamReport report;
    ReadContext context = new_context(files_, options_, report);
    while (Slot* slot = wait_for_work()) {
      report = {};
      slot->status = catch_refusals([&] {
        return read_block(cuts_[slot->block.view], slot->block, slot->data.get(), context);
      });
      slot->report = report;
      {
        const std::lock_guard lock(mutex_);
        slot->full = true;
      }
      full_.notify_one();
    }
  }

  // Waits for a free slot and assigns the next block to it. Returns null if there are no more
  // blocks.
  Slot* wait_for_work() {
    std::unique_lock lock(mutex_);
    room_.wait(lock,
               [&] { return stopped_ || blocks_.done() || taken_ - delivered_ < slots_.size(); });
    if (stopped_ || blocks_.done()) return nullptr;
    Slot& slot = slots_[taken_++ % slots_.size()];
    slot.block = blocks_.next();
    return &slot;
  }

  // Waits until the next slot in order is full. Returns null after the last block of the view.
  Slot* wait_for_next(size_t view) {
    std::unique_lock lock(mutex_);
    // The last view is not followed by a block of another view, which would end the loop.
    if (blocks_.done() && delivered_ == taken_) return nullptr;
    Slot& slot = slots_[delivered_ % slots_.size()];
    full_.wait(lock, [&] { return slot.full; });
    return slot.block.view == view ? &slot : nullptr;
  }

  void free_next() {
    {
      const std::lock_guard lock(mutex_);
      slots_[delivered_++ % slots_.size()].full = false;
    }
    room_.notify_one();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
  }

  const std::span<const Cut> cuts_;
  const std::vector<PayloadFile>& files_;
  const ReaderOptions& options_;
  std::mutex mutex_;
  std::condition_variable room_,
      full_;  // readers wait for room_; the delivering thread waits for full_
  Blocks blocks_;
  std::vector<Slot> slots_;
  uint64_t taken_ = 0, delivered_ = 0;  // numbers of blocks
  bool stopped_ = false;
  ThreadGroup readers_;  // last member: destroyed first, because its threads use the others
};

Result<Cut> cut_view(NodePtr node, size_t tile_bytes, const ReaderOptions& options) {
  if (NodePtr ordered = node->in_c_order()) node = std::move(ordered);
  const uint64_t width = node->width();
  const auto fit = [&](uint64_t bytes) { return std::max<uint64_t>(1, bytes / width); };
  Cut cut{node, static_cast<uint64_t>(node->type().elements()), 1, fit(tile_bytes)};
  // A view that reorders elements needs larger blocks: each range of the file then contributes more
  // elements per read.
  const uint64_t wanted =
      node->reorders() ? std::max(cut.tile, fit(options.gather_bytes)) : cut.tile;
  cut.block = std::min(wanted, cut.elements);
  const auto held = [&] { return cut.block_bytes() + cut.scratch_bytes(options); };
  while (held() > options.memory_bytes && cut.block_bytes() > kLeastBlockBytes)
    cut.block = (cut.block + 1) / 2;
  if (held() <= options.memory_bytes) return cut;
  return fail("weights.over_budget",
              fmt::format("reading {} in blocks of {} bytes needs {} bytes, the budget is {}",
                          to_string(node->type()), cut.block_bytes(), held(), options.memory_bytes),
              "raise the memory budget, or use fewer jobs");
}

Slots choose_slots(std::span<const Cut> cuts, const ReaderOptions& options) {
  Slots slots;
  uint64_t blocks = 0;
  for (const Cut& cut : cuts) {
    slots.block_bytes = std::max(slots.block_bytes, cut.block_bytes());
    slots.scratch_bytes = std::max(slots.scratch_bytes, cut.scratch_bytes(options));
    blocks += cut.block_count();
  }
  const uint64_t each = std::max<uint64_t>(1, slots.block_bytes + slots.scratch_bytes);
  // More readers than blocks would have no work.
  slots.count =
      std::max<uint64_t>(1, std::min({blocks, options.memory_bytes / each, options.readers}));
  return slots;
}

CutSeries::CutSeries(std::vector<Cut> cuts, const std::vector<PayloadFile>& files,
                     const ReaderOptions& options)
    : cuts_(std::move(cuts)),
      files_(files),
      options_(options),
      slots_(choose_slots(cuts_, options_)) {
  if (slots_.count > 1) readers_ = std::make_unique<Readers>(cuts_, files_, options_, slots_);
  if (readers_ && !readers_->started()) readers_.reset();
}

CutSeries::~CutSeries() = default;

Status CutSeries::next(const TileSink& sink, StreamReport& report) {
  MOEC_CHECK(next_ < cuts_.size(), "all {} views of the series were already delivered",
             cuts_.size());
  const size_t view = next_++;
  if (!readers_) return stream_alone(cuts_[view], files_, options_, sink, report);
  report.peak_scratch = std::max(report.peak_scratch, slots_.held_bytes());
  return readers_->deliver_view(view, sink, report);
}

}  // namespace moec
