// Reads byte extents of files into memory on a pool of threads, with direct I/O if the file system
// supports it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/runtime/experts/expert_places.h"
#include "backends/weights/views/payload_file.h"
#include "ir/base/refusals.h"

namespace moec {

// Index of the weight units (weight_pager.h) of an export's experts. Each unit is the bytes of one
// expert in one file.

// Bytes of one expert in one file.
struct ExpertUnit {
  size_t expert = 0, file = 0;  // indices into ExpertPlaces
};

class ExpertUnits {
 public:
  // Adds the units of the next expert. Must be called once per expert, in the order of
  // ExpertPlaces::experts().
  void add(const PlacedExpert& expert);

  // Returns the unit that contains bytes [offset, offset + bytes) of `file`; absent if they are not
  // part of one expert's extent.
  std::optional<size_t> find(size_t file, uint64_t offset, uint64_t bytes) const;
  const ExpertUnit& operator[](size_t unit) const { return units_[unit]; }

 private:
  size_t experts_ = 0;
  std::vector<ExpertUnit> units_;
  // (file, first byte) of an extent → (end of the extent, unit).
  std::map<std::pair<size_t, uint64_t>, std::pair<uint64_t, size_t>> extents_;
};

// A read of bytes [begin, end) of a file. Byte `begin` goes to `to` + begin %
// PayloadFile::kBlockBytes; whole file blocks go to the consecutive blocks from `to`.
struct ExtentRead {
  const PayloadFile* file = nullptr;
  uint64_t begin = 0, end = 0;
  std::byte* to = nullptr;  // aligned to PayloadFile::kBlockBytes
};

// The reads of one expert, at least one. `done` is called on a loader thread when all of them are
// complete, with the first error of any of them: weights.read or weights.file_changed.
struct SlotLoad {
  std::vector<ExtentRead> reads;
  std::function<void(Status)> done;
};

// One read call. The default is PayloadFile::read_pieces().
using ReadCall = std::function<Status(const PayloadFile&, std::span<const PayloadFile::Piece>)>;

// Number of threads of an ExpertStore. With several threads, one sets up its read while others wait
// for the disk.
inline constexpr size_t kExpertReaders = 4;

class ExpertLoader {
 public:
  // Starts `threads` threads, or fewer if the system refuses to create more.
  explicit ExpertLoader(size_t threads, ReadCall read = {});
  ExpertLoader(const ExpertLoader&) = delete;
  ExpertLoader& operator=(const ExpertLoader&) = delete;
  // Waits for reads in progress and discards queued ones.
  ~ExpertLoader();

  size_t threads() const { return threads_.size(); }

  // Queues loads and returns their number of read calls. Requires threads() > 0. Reads of lower
  // turns start first, those of one turn in call order; they run concurrently. A call reads at most
  // 1 MiB: consecutive reads of neighbouring bytes share a call, and longer reads are split.
  size_t load(std::vector<SlotLoad> loads, uint64_t turn);

 private:
  struct Load {
    size_t parts = 0;  // parts that are still to be read
    Status status;
    std::vector<const PayloadFile*> files;
    std::function<void(Status)> done;
  };
  // Parts of loads that one call reads.
  struct Batch {
    const PayloadFile* file = nullptr;
    std::vector<PayloadFile::Piece> pieces;
    std::vector<std::shared_ptr<Load>> loads;  // of each piece
  };

  static void add_part(const ExtentRead& part, const std::shared_ptr<Load>& load,
                       std::vector<Batch>& batches);
  void work();
  void finish(Load& load, const Status& status);

  ReadCall read_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::multimap<uint64_t, Batch> queue_;  // by turn
  bool ends_ = false;
  ThreadGroup threads_;
};

}  // namespace moec
