#include "models/plan/cut_options.h"

#include <fmt/format.h>

namespace moec {
namespace {

constexpr int64_t kGroup = 64;  // int4 weights that share a scale and an offset

int64_t group_bytes(WeightStorage storage) {
  switch (storage) {
    case WeightStorage::f32:
      return kGroup * 4;
    case WeightStorage::f16:
      return kGroup * 2;
    case WeightStorage::int8:
      return kGroup;
    case WeightStorage::int4:
      return kGroup / 2 + 4;
  }
  return 0;
}

}  // namespace

WeightStorage storage_of(DType dtype) {
  return dtype == DType::f16 ? WeightStorage::f16 : WeightStorage::f32;
}

int64_t stored_bytes(int64_t weights, WeightStorage storage) {
  return (weights * group_bytes(storage) + kGroup - 1) / kGroup;
}

int64_t weights_within(int64_t bytes, WeightStorage storage) {
  return bytes * kGroup / group_bytes(storage);
}

std::string megabytes_flag(int64_t bytes) {
  constexpr int64_t kKilo = 1000, kMega = 1'000'000;
  if (bytes > 10 * kMega) return std::to_string((bytes + kMega - 1) / kMega);
  const int64_t kilobytes = (bytes + kKilo - 1) / kKilo;
  return fmt::format("{}.{:03}", kilobytes / kKilo, kilobytes % kKilo);
}

}  // namespace moec
