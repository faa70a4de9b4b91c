// Reads stretches of files into memory on threads of its own, past the page cache where the file
// system can.
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

// Which units of weights (weight_pager.h) the experts of an export are.

// What an expert has in one file.
struct ExpertUnit {
  size_t expert = 0, file = 0;  // indices into ExpertPlaces
};

class ExpertUnits {
 public:
  // The units of the next expert of ExpertPlaces.
  void add(const PlacedExpert& expert);

  // The unit that has these bytes of a file; nothing if no expert has them.
  std::optional<size_t> find(size_t file, uint64_t offset, uint64_t bytes) const;
  const ExpertUnit& operator[](size_t unit) const { return units_[unit]; }

 private:
  size_t experts_ = 0;
  std::vector<ExpertUnit> units_;
  // By file and first byte: the end of the stretch, and its unit.
  std::map<std::pair<size_t, uint64_t>, std::pair<uint64_t, size_t>> stretches_;
};

// Where bytes [begin, end) of a file go: byte `begin` to `to` + begin % PayloadFile::kBlockBytes,
// whole blocks to the blocks from `to` on.
struct StretchRead {
  const PayloadFile* file = nullptr;
  uint64_t begin = 0, end = 0;
  std::byte* to = nullptr;  // aligned to PayloadFile::kBlockBytes
};

class ExpertLoader {
 public:
  // Called on a thread of the loader when all is read, with the first error: weights.read or
  // weights.file_changed.
  using Done = std::function<void(Status)>;

  // As many threads as the system grants.
  explicit ExpertLoader(size_t threads);
  ExpertLoader(const ExpertLoader&) = delete;
  ExpertLoader& operator=(const ExpertLoader&) = delete;
  // Waits for the reads that have begun; others are dropped.
  ~ExpertLoader();

  size_t threads() const { return threads_.size(); }

  // Needs a thread. Reads in the order of the calls; several parts at the same time.
  void load(const std::vector<StretchRead>& reads, Done done);

 private:
  struct Load {
    size_t parts = 0;  // that are not read yet
    Status status;
    std::vector<const PayloadFile*> files;
    Done done;
  };
  struct Part {
    StretchRead read;
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
