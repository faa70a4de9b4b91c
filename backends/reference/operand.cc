#include "backends/reference/operand.h"

#include <algorithm>
#include <array>

#include "backends/weights/convert.h"

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

}  // namespace

Operand::Operand(const Call& call, size_t index)
    : stored_(call.stored.empty() ? nullptr : call.stored[index]) {
  if (stored_ == nullptr) {
    whole_ = call[index].data.data();
    return;
  }
  read_.emplace(stored_->values);
  if (const auto values = stored_->values.as_f32(); values && !stored_->rounds)
    whole_ = values->data();
}

const HalfProducts* Operand::halves() const {
  return stored_->rounds ? nullptr : half_products(stored_->values.dtype());
}

void Operand::widen(int64_t begin, int64_t count, float* to) const {
  stored_->values.widen(begin, static_cast<size_t>(count), to);
  if (stored_->rounds) round_to_f16(to, static_cast<size_t>(count));
}

}  // namespace moec
