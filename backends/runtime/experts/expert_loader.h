// Reads stretches of files into memory on threads of its own, past the page cache where the file
// system can.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/weights/views/payload_file.h"
#include "ir/base/refusals.h"

namespace moec {

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
