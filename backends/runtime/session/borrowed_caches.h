// Lends the caches of a session as inputs of a run, without copying. The run only reads the caches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/runtime/session/engine.h"

namespace moec {

// Moves caches into input tensors. The destructor moves them back.
class BorrowedCaches {
 public:
  // `tensors`: inputs of a run by port name. The map must outlive this object.
  explicit BorrowedCaches(NamedTensors& tensors) : tensors_(tensors) {}
  BorrowedCaches(const BorrowedCaches&) = delete;
  BorrowedCaches& operator=(const BorrowedCaches&) = delete;
  ~BorrowedCaches();

  // Returns the tensor for `port`, which the caller must insert into `tensors` under the port's
  // name. Moves the storage of `cache` into the tensor; `cache` is empty until the destructor runs.
  // If `cache` is already lent to another port, copies it instead.
  Tensor lend(const manifest::Port& port, std::vector<float>& cache);

 private:
  NamedTensors& tensors_;
  std::map<std::vector<float>*, std::string> ports_;
};

}  // namespace moec
