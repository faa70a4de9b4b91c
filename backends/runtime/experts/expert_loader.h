// Reads byte extents of files into memory on a pool of threads, with direct I/O if the file system
// supports it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

// Number of threads of an ExpertStore. With several threads, one sets up its read while others wait
// for the disk.
inline constexpr size_t kExpertReaders = 4;

class ExpertLoader {
 public:
  // Called on a loader thread when all reads of the load are complete, with the first error of any
  // of them: weights.read or weights.file_changed.
  using Done = std::function<void(Status)>;

  // Starts `threads` threads, or fewer if the system refuses to create more.
  explicit ExpertLoader(size_t threads);
  ExpertLoader(const ExpertLoader&) = delete;
  ExpertLoader& operator=(const ExpertLoader&) = delete;
  // Waits for reads in progress and discards queued ones.
  ~ExpertLoader();

  size_t threads() const { return threads_.size(); }

  // Queues a load. Requires threads() > 0. Loads start in call order; their parts are read
  // concurrently.
  void load(const std::vector<ExtentRead>& reads, Done done);

 private:
  struct Load {
    size_t parts = 0;  // parts that are still to be read
    Status status;
    std::vector<const PayloadFile*> files;
    Done done;
  };
  struct Part {
    ExtentRead read;
    std::shared_ptr<Load> load;
  };

  void work();
  void finish(const Part& part, Status status);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Part> queue_;
  bool ends_ = false;
  ThreadGroup threads_;
};

}  // namespace moec
