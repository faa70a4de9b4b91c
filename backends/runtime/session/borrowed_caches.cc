#include "backends/runtime/session/borrowed_caches.h"

#include <utility>

#include "ir/base/invariant.h"

namespace moec {

BorrowedCaches::~BorrowedCaches() {
  // The pointers are valid, because a std::map does not move its elements (Sequence::caches). The
  // destructor also returns the caches after a failed run.
  for (const auto& [cache, port] : ports_) *cache = std::move(tensors_.at(port).data);
}

Tensor BorrowedCaches::lend(const manifest::Port& port, std::vector<float>& cache) {
  const Type type = port.type();
  if (const auto found = ports_.find(&cache); found != ports_.end())
    return {type, tensors_.at(found->second).data};
  MOEC_CHECK(type.elements() == std::ssize(cache), "cache of {} values for port {}", cache.size(),
             port.name);
  ports_[&cache] = port.name;
  return {type, std::move(cache)};
}

}  // namespace moec
