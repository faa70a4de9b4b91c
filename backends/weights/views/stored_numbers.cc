#include "backends/weights/views/stored_numbers.h"

#include <algorithm>
#include <array>

#include "backends/weights/views/convert.h"

namespace moec {

// All numbers of a run have the same whole number of bits, so the division is exact.
bool holds_packing(const StoredNumbers& numbers, Packing packing) {
  const auto* stored = std::get_if<Packing>(&numbers.form);
  return stored != nullptr && *stored == packing;
}

// Unpacks all codes, so that the values follow from the definition of the packing.
std::array<float, 16> nibble_values(Packing packing) {
  std::array<float, 16> values;
  std::array<std::byte, 8> packed;
  for (size_t i = 0; i < packed.size(); ++i)
    packed[i] = static_cast<std::byte>(2 * i | (2 * i + 1) << 4);
  const auto element = static_cast<size_t>(dtype_bytes(packed_run(packing).dtype));
  unpack(packing, packed.data(), packed.size() / element, values.data());
  return values;
}

bool StoredNumbers::are_indices(int64_t entries) const {
  const auto* packing = std::get_if<Packing>(&form);
  if (packing == nullptr) return false;
  const bool is_unsigned =
      (*packing >= Packing::u1 && *packing <= Packing::u8) || *packing == Packing::u4_high;
  return is_unsigned && entries <= 256 && (int64_t{1} << number_bits(*packing)) <= entries;
}

bool NumberReader::read(int64_t index, int64_t count, float* to) const {
  if (const float* constant = std::get_if<float>(&numbers_.form)) {
    std::fill_n(to, count, *constant);
    return true;
  }
  // A constant has no position, so `first` applies only from here on.
  index += numbers_.first;
  if (const auto* dtype = std::get_if<DType>(&numbers_.form)) {
    const std::byte* from = find(index * dtype_bytes(*dtype), count * dtype_bytes(*dtype));
    if (from != nullptr) decode(*dtype, from, static_cast<size_t>(count), to);
    return from != nullptr;
  }
  return read_packed(std::get<Packing>(numbers_.form), index, count, to);
}

const float* NumberReader::get(int64_t index, int64_t count, float* buffer) const {
  const auto* dtype = std::get_if<DType>(&numbers_.form);
  if (dtype && *dtype == DType::f32) {
    const std::byte* from = find((index + numbers_.first) * 4, count * 4);
    // Offsets in a file need not be multiples of 4; reading an unaligned float is undefined.
    if (from && reinterpret_cast<uintptr_t>(from) % alignof(float) == 0)
      return reinterpret_cast<const float*>(from);
  }
  return read(index, count, buffer) ? buffer : nullptr;
}

const std::byte* NumberReader::bytes(int64_t index, int64_t count) const {
  const int64_t bits = number_bits(std::get<Packing>(numbers_.form));
  const int64_t first = (index + numbers_.first) * bits;
  return first % 8 == 0 ? find(first / 8, (count * bits + 7) / 8) : nullptr;
}

const std::byte* NumberReader::find(int64_t byte, int64_t bytes) const {
  return held_.find(numbers_.at.offset + static_cast<uint64_t>(byte), static_cast<uint64_t>(bytes));
}

// Decodes whole runs directly into `to`, and a partial run at either end through a temporary
// buffer.
bool NumberReader::read_packed(Packing packing, int64_t index, int64_t count, float* to) const {
  const PackedRun run = packed_run(packing);
  const int64_t bits = number_bits(packing), end = index + count;
  const int64_t unit = dtype_bytes(run.dtype), run_bytes = run.elements * unit;
  const int64_t first = (index + run.numbers - 1) / run.numbers * run.numbers;
  const int64_t last = std::max(first, end / run.numbers * run.numbers);
  // `first` lies after `end` if all numbers are in the middle of one run; hence the minimum.
  if (first > index && !read_part(packing, index, std::min(first, end) - index, to)) return false;
  if (last > first) {
    const int64_t runs = (last - first) / run.numbers;
    const std::byte* from = find(first / run.numbers * run_bytes, (last - first) * bits / 8);
    if (from == nullptr) return false;
    unpack(packing, from, static_cast<size_t>(runs * run.elements), to + (first - index));
  }
  return last >= end || first >= end || read_part(packing, last, end - last, to + (last - index));
}

// Reads numbers of a single run.
bool NumberReader::read_part(Packing packing, int64_t index, int64_t count, float* to) const {
  const PackedRun run = packed_run(packing);
  const int64_t unit = dtype_bytes(run.dtype), skip = index % run.numbers;
  const int64_t bytes = ((skip + count) * number_bits(packing) + 8 * unit - 1) / (8 * unit) * unit;
  const std::byte* from = find(index / run.numbers * run.elements * unit, bytes);
  if (from == nullptr) return false;
  std::array<float, 8> numbers;  // no packing has longer runs
  unpack(packing, from, static_cast<size_t>(bytes / unit), numbers.data());
  std::copy_n(numbers.begin() + skip, count, to);
  return true;
}

}  // namespace moec
