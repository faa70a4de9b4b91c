#include "backends/weights/stream_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/weights/convert.h"

namespace moec {
namespace {

// Smaller blocks would spend their time on calls instead of on bytes.
constexpr uint64_t kLeastBlockBytes = uint64_t{64} << 10;

// A stretch of the view that is read at once.
struct Block {
  Region region;
  uint64_t elements = 0;
};

// The blocks in order.
class Blocks {
 public:
  explicit Blocks(const Cut& cut) : cut_(cut) {}

  bool done() const { return at_ == cut_.elements; }
  Block next() {
    Block block;
    const uint64_t end = std::min(cut_.elements, at_ + cut_.block);
    const int64_t next = first_region(cut_.node->type().dims, static_cast<int64_t>(at_),
                                      static_cast<int64_t>(end), block.region);
    block.elements = static_cast<uint64_t>(next) - at_;
    at_ = static_cast<uint64_t>(next);
    return block;
  }

 private:
  const Cut& cut_;
  uint64_t at_ = 0;
};

Status read_block(const Cut& cut, const Block& block, std::byte* to, ReadContext& context) {
  MOEC_TRY(cut.node->read_packed(block.region, to, context));
  context.report.elements += block.elements;
  context.report.nans += count_nans(cut.node->type().dtype, to, block.elements);
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

Status stream_alone(const Cut& cut, const std::vector<PayloadFile>& files,
                    const ReaderOptions& options, const TileSink& sink, StreamReport& report) {
  ReadContext context{files, options, report, {}, std::vector<bool>(files.size())};
  auto buffer = context.scratch.take(static_cast<size_t>(cut.block_bytes()));
  Status status;
  for (Blocks blocks(cut); status && !blocks.done();) {
    const Block block = blocks.next();
    status = read_block(cut, block, buffer.data(), context);
    if (status) status = deliver(cut, block, buffer.data(), sink);
  }
  report.peak_scratch = context.scratch.peak();
  return status;
}

// Block number n lies in slot n % slots until it is delivered. Readers take numbers in turn.
class ParallelStream {
 public:
  ParallelStream(const Cut& cut, const std::vector<PayloadFile>& files,
                 const ReaderOptions& options, uint64_t slots)
      : cut_(cut), files_(files), options_(options), blocks_(cut), slots_(slots) {
    for (uint64_t i = 0; i < slots; ++i)
      slots_[i].data.reset(new std::byte[static_cast<size_t>(cut.block_bytes())]);
    for (uint64_t i = 0; i < slots; ++i) readers_.emplace_back([this] { read(); });
  }
  ~ParallelStream() {
    stop();
    for (std::thread& reader : readers_) reader.join();
  }

  // The first failure in the order of the blocks ends the stream, as it would with one reader.
  Status deliver_all(const TileSink& sink, StreamReport& report) {
    while (Slot* slot = wait_for_next()) {
      report += slot->report;
      MOEC_TRY(std::move(slot->status));
      MOEC_TRY(deliver(cut_, slot->block, slot->data.get(), sink));
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
    ReadContext context{files_, options_, report, {}, std::vector<bool>(files_.size())};
    while (Slot* slot = wait_for_work()) {
      report = {};
      slot->status = read_block(cut_, slot->block, slot->data.get(), context);
      slot->report = report;
      {
        const std::lock_guard lock(mutex_);
        slot->full = true;
      }
      changed_.notify_all();
    }
  }

  // A free slot with the next block in it; null when there is no further one.
  Slot* wait_for_work() {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return stopped_ || blocks_.done() || taken_ - delivered_ < slots_.size(); });
    if (stopped_ || blocks_.done()) return nullptr;
    Slot& slot = slots_[taken_++ % slots_.size()];
    slot.block = blocks_.next();
    return &slot;
  }

  // The next slot in order, full; null after the last.
  Slot* wait_for_next() {
    std::unique_lock lock(mutex_);
    if (blocks_.done() && delivered_ == taken_) return nullptr;
    Slot& slot = slots_[delivered_ % slots_.size()];
    changed_.wait(lock, [&] { return slot.full; });
    return &slot;
  }

  void free_next() {
    {
      const std::lock_guard lock(mutex_);
      slots_[delivered_++ % slots_.size()].full = false;
    }
    changed_.notify_all();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

  const Cut& cut_;
  const std::vector<PayloadFile>& files_;
  const ReaderOptions& options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Blocks blocks_;
  std::vector<Slot> slots_;
  uint64_t taken_ = 0, delivered_ = 0;  // blocks
  bool stopped_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace

Result<Cut> cut_view(NodePtr node, size_t tile_bytes, const ReaderOptions& options) {
  if (NodePtr ordered = node->in_c_order()) node = std::move(ordered);
  const uint64_t width = node->width();
  const auto fit = [&](uint64_t bytes) { return std::max<uint64_t>(1, bytes / width); };
  Cut cut{node, static_cast<uint64_t>(node->type().elements()), 1, fit(tile_bytes)};
  const uint64_t wanted =
      node->reorders() ? std::max(cut.tile, fit(options.gather_bytes)) : cut.tile;
  cut.block = std::min(wanted, cut.elements);
  while (cut.held_bytes(options) > options.memory_bytes && cut.block_bytes() > kLeastBlockBytes)
    cut.block = (cut.block + 1) / 2;
  if (cut.held_bytes(options) <= options.memory_bytes) return cut;
  return fail("weights.over_budget",
              fmt::format("reading {} in blocks of {} bytes takes {} bytes, the budget is {}",
                          to_string(node->type()), cut.block_bytes(), cut.held_bytes(options),
                          options.memory_bytes),
              "give more memory, or use fewer jobs");
}

uint64_t blocks_held(const Cut& cut, const ReaderOptions& options) {
  const uint64_t blocks = (cut.elements + cut.block - 1) / cut.block;
  const uint64_t room = options.memory_bytes / cut.held_bytes(options);
  return std::max<uint64_t>(1, std::min({blocks, room, options.readers}));
}

Status stream_cut(const Cut& cut, const std::vector<PayloadFile>& files,
                  const ReaderOptions& options, const TileSink& sink, StreamReport& report) {
  const uint64_t slots = blocks_held(cut, options);
  if (slots == 1) return stream_alone(cut, files, options, sink, report);
  report.peak_scratch = slots * cut.held_bytes(options);
  return ParallelStream(cut, files, options, slots).deliver_all(sink, report);
}

}  // namespace moec
