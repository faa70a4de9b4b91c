// The caches of a session as the inputs of a run, which only reads them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/runtime/session/engine.h"

namespace moec {

// Moves caches into the tensors of ports, and back when it goes out of scope.
class BorrowedCaches {
 public:
  // The tensors of a run, by port. They outlive this.
  explicit BorrowedCaches(NamedTensors& tensors) : tensors_(tensors) {}
  BorrowedCaches(const BorrowedCaches&) = delete;
  BorrowedCaches& operator=(const BorrowedCaches&) = delete;
  ~BorrowedCaches();

  // The tensor of a port, which the caller puts among the tensors: the cache itself, which is empty
  // meanwhile. A cache that another port has is copied.
  Tensor lend(const manifest::Port& port, std::vector<float>& cache);

 private:
  NamedTensors& tensors_;
  std::map<std::vector<float>*, std::string> ports_;
};

}  // namespace moec
