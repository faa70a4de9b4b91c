#include "backends/reference/stored_weight.h"

#include <algorithm>
#include <array>

#include "backends/weights/views/convert.h"

namespace moec {
namespace {

void round_to_f16(float* values, size_t count) {
  std::array<std::byte, 4096> halves;
  for (size_t done = 0; done < count; done += halves.size() / 2) {
    const size_t part = std::min(count - done, halves.size() / 2);
    encode(DType::f16, values + done, part, halves.data());
    decode(DType::f16, halves.data(), part, values + done);
  }
}

bool is_aligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(float) == 0;
}

}  // namespace

DType StoredWeight::dtype() const {
  const MappedValues* file = mapped();
  return file ? file->dtype() : std::get<HeldValues>(values_).view->type().dtype;
}

const std::byte* StoredWeight::data() const {
  if (const MappedValues* file = mapped()) return file->data();
  const auto& held = std::get<HeldValues>(values_);
  return held.view->data(*held.bytes);
}

const float* StoredWeight::whole() const {
  const std::byte* stored = dtype() == DType::f32 && !rounds_ ? data() : nullptr;
  return stored && is_aligned(stored) ? reinterpret_cast<const float*>(stored) : nullptr;
}

const HalfProducts* StoredWeight::halves() const {
  return rounds_ || data() == nullptr ? nullptr : half_products(dtype());
}

void StoredWeight::widen(int64_t begin, int64_t count, float* to) const {
  if (const MappedValues* file = mapped()) {
    file->widen(begin, static_cast<size_t>(count), to);
  } else {
    const auto& held = std::get<HeldValues>(values_);
    Status decoded = held.view->widen(*held.bytes, begin, count, to);
    if (!decoded && *held.failure) *held.failure = std::move(decoded);
  }
  if (rounds_) round_to_f16(to, static_cast<size_t>(count));
}

}  // namespace moec
