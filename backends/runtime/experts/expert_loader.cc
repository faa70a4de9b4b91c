#include "backends/runtime/experts/expert_loader.h"

#include <algorithm>

namespace moec {

void ExpertUnits::add(const PlacedExpert& expert) {
  for (const ByteExtent& extent : expert.extents) {
    // The extents of an expert are ordered by file, so only the last unit can be in the same file.
    if (units_.empty() || units_.back().expert != experts_ || units_.back().file != extent.file)
      units_.push_back({experts_, extent.file});
    extents_[{extent.file, extent.begin}] = {extent.end, units_.size() - 1};
  }
  ++experts_;
}

std::optional<size_t> ExpertUnits::find(size_t file, uint64_t offset, uint64_t bytes) const {
  // Extents do not overlap (ExpertPlaces::find()), so only the last one that begins at or before
  // `offset` can contain it.
  auto after = extents_.upper_bound({file, offset});
  if (after == extents_.begin()) return std::nullopt;
  const auto& [place, extent] = *--after;
  const auto& [end, unit] = extent;
  // Compares with a difference, because offset + bytes could overflow.
  const bool inside = place.first == file && offset < end && bytes <= end - offset;
  return inside ? std::optional(unit) : std::nullopt;
}

namespace {

// Size of one read call. Extents are split so that several threads can read one extent at the same
// time.
constexpr uint64_t kPartBytes = uint64_t{1} << 20;

std::vector<ExtentRead> cut(const ExtentRead& read) {
  constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
  const uint64_t first = read.begin / kBlock * kBlock;
  std::vector<ExtentRead> parts;
  for (uint64_t begin = read.begin; begin < read.end;) {
    // All parts but the first begin at a block boundary, as direct I/O requires: kPartBytes is a
    // multiple of the block size.
    const uint64_t block = begin / kBlock * kBlock, end = std::min(block + kPartBytes, read.end);
    parts.push_back({read.file, begin, end, read.to + (block - first)});
    begin = end;
  }
  return parts;
}

}  // namespace

ExpertLoader::ExpertLoader(size_t threads) {
  for (size_t i = 0; i < threads; ++i)
    // Fewer threads suffice. ExpertStore::open() refuses a loader without threads.
    if (!threads_.start([this] { work(); })) break;
}

ExpertLoader::~ExpertLoader() {
  {
    const std::lock_guard lock(mutex_);
    // Setting the flag under the mutex prevents a lost wake-up: no thread is between its check of
    // the flag and its wait.
    ends_ = true;
  }
  wake_.notify_all();
  threads_.join();
}

void ExpertLoader::load(const std::vector<ExtentRead>& reads, Done done) {
  const auto load = std::make_shared<Load>();
  load->done = std::move(done);
  std::vector<Part> parts;
  for (const ExtentRead& read : reads) {
    load->files.push_back(read.file);
    for (const ExtentRead& part : cut(read)) parts.push_back({part, load});
  }
  // `parts` is set before the parts are queued, because a thread can finish a part before this
  // function returns. `reads` must not be empty: without parts, no thread would call `done`.
  load->parts = parts.size();
  {
    const std::lock_guard lock(mutex_);
    queue_.insert(queue_.end(), parts.begin(), parts.end());
  }
  wake_.notify_all();
}

void ExpertLoader::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const Part part = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const ExtentRead& read = part.read;
    finish(part, catch_refusals(
                     [&] { return read.file->read_blocks_to(read.begin, read.end, read.to); }));
  }
}

// The thread that finishes the last part of a load checks that no file changed during the load.
void ExpertLoader::finish(const Part& part, Status status) {
  Load& load = *part.load;
  {
    const std::lock_guard lock(mutex_);
    if (load.status) load.status = std::move(status);
    if (--load.parts > 0) return;
  }
  // `load` needs no lock here, because all of its other parts are finished.
  for (const PayloadFile* file : load.files)
    if (load.status) load.status = file->check_unchanged();
  load.done(load.status);
}

}  // namespace moec
