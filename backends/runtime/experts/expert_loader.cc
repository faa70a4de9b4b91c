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

// Maximum bytes of one read call. Extents are split so that several threads can read one extent at
// the same time.
constexpr uint64_t kCallBytes = uint64_t{1} << 20;

std::vector<ExtentRead> cut(const ExtentRead& read) {
  constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
  const uint64_t first = read.begin / kBlock * kBlock;
  std::vector<ExtentRead> parts;
  for (uint64_t begin = read.begin; begin < read.end;) {
    // All parts but the first begin at a block boundary, as direct I/O requires: kCallBytes is a
    // multiple of the block size.
    const uint64_t block = begin / kBlock * kBlock, end = std::min(block + kCallBytes, read.end);
    parts.push_back({read.file, begin, end, read.to + (block - first)});
    begin = end;
  }
  return parts;
}

}  // namespace

ExpertLoader::ExpertLoader(size_t threads, ReadCall read) : read_(std::move(read)) {
  if (!read_)
    read_ = [](const PayloadFile& file, std::span<const PayloadFile::Piece> pieces) {
      return file.read_pieces(pieces);
    };
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

// Appends a part to the last call if it reads the bytes before the part, else to a new one.
void ExpertLoader::add_part(const ExtentRead& part, const std::shared_ptr<Load>& load,
                            std::vector<Batch>& batches) {
  const PayloadFile::Piece piece{part.begin, part.end, part.to};
  ++load->parts;
  const bool joins = !batches.empty() && batches.back().file == part.file &&
                     PayloadFile::continues(batches.back().pieces.back(), piece) &&
                     piece.end - batches.back().pieces.front().begin <= kCallBytes;
  if (!joins) batches.push_back({part.file, {}, {}});
  batches.back().pieces.push_back(piece);
  batches.back().loads.push_back(load);
}

size_t ExpertLoader::load(std::vector<SlotLoad> loads, uint64_t turn) {
  std::vector<Batch> batches;
  for (SlotLoad& expert : loads) {
    const auto load = std::make_shared<Load>();
    load->done = std::move(expert.done);
    for (const ExtentRead& read : expert.reads) {
      load->files.push_back(read.file);
      for (const ExtentRead& part : cut(read)) add_part(part, load, batches);
    }
  }
  const size_t calls = batches.size();
  {
    const std::lock_guard lock(mutex_);
    // A multimap keeps the order of insertion for equal keys.
    for (Batch& batch : batches) queue_.emplace(turn, std::move(batch));
  }
  wake_.notify_all();
  return calls;
}

void ExpertLoader::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const Batch batch = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    lock.unlock();
    const Status status = catch_refusals([&] { return read_(*batch.file, batch.pieces); });
    for (const auto& load : batch.loads) finish(*load, status);
  }
}

// The thread that finishes the last part of a load checks that no file changed during the load.
void ExpertLoader::finish(Load& load, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (load.status) load.status = status;
    if (--load.parts > 0) return;
  }
  // `load` needs no lock here, because all of its other parts are finished.
  for (const PayloadFile* file : load.files)
    if (load.status) load.status = file->check_unchanged();
  load.done(load.status);
}

}  // namespace moec
