#include "backends/runtime/experts/expert_loader.h"

#include <algorithm>

namespace moec {

void ExpertUnits::add(const PlacedExpert& expert) {
  for (const ByteExtent& stretch : expert.stretches) {
    if (units_.empty() || units_.back().expert != experts_ || units_.back().file != stretch.file)
      units_.push_back({experts_, stretch.file});
    stretches_[{stretch.file, stretch.begin}] = {stretch.end, units_.size() - 1};
  }
  ++experts_;
}

std::optional<size_t> ExpertUnits::find(size_t file, uint64_t offset, uint64_t bytes) const {
  auto after = stretches_.upper_bound({file, offset});
  if (after == stretches_.begin()) return std::nullopt;
  const auto& [place, stretch] = *--after;
  const auto& [end, unit] = stretch;
  const bool inside = place.first == file && offset < end && bytes <= end - offset;
  return inside ? std::optional(unit) : std::nullopt;
}

namespace {

// Read by one call. Several of them at a time keep a disk busy.
constexpr uint64_t kPartBytes = uint64_t{1} << 20;

std::vector<StretchRead> cut(const StretchRead& read) {
  constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
  const uint64_t first = read.begin / kBlock * kBlock;
  std::vector<StretchRead> parts;
  for (uint64_t begin = read.begin; begin < read.end;) {
    const uint64_t block = begin / kBlock * kBlock, end = std::min(block + kPartBytes, read.end);
    parts.push_back({read.file, begin, end, read.to + (block - first)});
    begin = end;
  }
  return parts;
}

}  // namespace

ExpertLoader::ExpertLoader(size_t threads) {
  for (size_t i = 0; i < threads; ++i)
    if (!threads_.start([this] { work(); })) break;
}

ExpertLoader::~ExpertLoader() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  threads_.join();
}

void ExpertLoader::load(const std::vector<StretchRead>& reads, Done done) {
  const auto load = std::make_shared<Load>();
  load->done = std::move(done);
  std::vector<Part> parts;
  for (const StretchRead& read : reads) {
    load->files.push_back(read.file);
    for (const StretchRead& part : cut(read)) parts.push_back({part, load});
  }
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
    const StretchRead& read = part.read;
    finish(part, catch_refusals(
                     [&] { return read.file->read_blocks_to(read.begin, read.end, read.to); }));
  }
}

// The last part checks that the file was the same all the time.
void ExpertLoader::finish(const Part& part, Status status) {
  Load& load = *part.load;
  {
    const std::lock_guard lock(mutex_);
    if (load.status) load.status = std::move(status);
    if (--load.parts > 0) return;
  }
  for (const PayloadFile* file : load.files)
    if (load.status) load.status = file->check_unchanged();
  load.done(load.status);
}

}  // namespace moec
