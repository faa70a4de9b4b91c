#include "backends/runtime/session/session_impl.h"
#include "ir/base/invariant.h"

namespace moec {

BorrowedCaches::~BorrowedCaches() {
  // The pointers are valid, because a std::map does not move its elements (Sequence::caches). The
  // destructor also returns the caches after a failed run.
  for (const auto& [cache, port] : floats_) *cache = std::move(tensors_.at(port).data);
  for (const auto& [cache, port] : halves_) *cache = std::move(tensors_.at(port).halves);
}

template <class T>
Tensor BorrowedCaches::lend(const manifest::Port& port, std::vector<T>& cache,
                            std::vector<T> Tensor::*elements, Lent<T>& lent) const {
  Tensor tensor{port.type(), {}};
  if (const auto found = lent.find(&cache); found != lent.end()) {
    tensor.*elements = tensors_.at(found->second).*elements;
    return tensor;
  }
  MOEC_CHECK(tensor.type.elements() == std::ssize(cache), "cache of {} values for port {}",
             cache.size(), port.name);
  lent[&cache] = port.name;
  tensor.*elements = std::move(cache);
  return tensor;
}

Tensor BorrowedCaches::lend(const manifest::Port& port, std::vector<float>& cache) {
  return lend(port, cache, &Tensor::data, floats_);
}

Tensor BorrowedCaches::lend(const manifest::Port& port, CacheValues& cache) {
  // A lent vector is empty, so the map tells which of both it is.
  if (!cache.halves.empty() || halves_.contains(&cache.halves))
    return lend(port, cache.halves, &Tensor::halves, halves_);
  return lend(port, cache.floats);
}

}  // namespace moec
