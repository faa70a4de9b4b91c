#include "backends/reference/stored_weight.h"

#include <mutex>

#include "backends/weights/views/convert.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Takes a lock, because several threads may decode a weight at once.
void keep_first(Status& first, Status failure) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  if (first) first = std::move(failure);
}

// Offsets in a file need not be multiples of 4; reading an unaligned float is undefined behaviour.
bool is_aligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(float) == 0;
}

}  // namespace

DType StoredWeight::dtype() const {
  if (const auto* file = std::get_if<MappedValues>(&values_)) return file->dtype();
  if (const auto* codes = std::get_if<MappedView>(&values_)) return codes->type().dtype;
  return std::get<HeldValues>(values_).view->type().dtype;
}

std::optional<MappedRange> StoredWeight::range() const {
  if (const auto* file = std::get_if<MappedValues>(&values_)) return file->range();
  if (const auto* codes = std::get_if<MappedView>(&values_)) return codes->range();
  return std::nullopt;
}

void StoredWeight::release() const {
  if (const auto* file = std::get_if<MappedValues>(&values_)) file->release();
  if (const auto* codes = std::get_if<MappedView>(&values_)) codes->release();
}

const std::byte* StoredWeight::data() const {
  if (const auto* file = std::get_if<MappedValues>(&values_)) return file->data();
  if (std::holds_alternative<MappedView>(values_)) return nullptr;
  const auto& held = std::get<HeldValues>(values_);
  return held.view->data(*held.bytes);
}

// Only f32 values that need no rounding can be read in place.
const float* StoredWeight::whole() const {
  const std::byte* stored = dtype() == DType::f32 && !form_.rounds ? data() : nullptr;
  return stored && is_aligned(stored) ? reinterpret_cast<const float*>(stored) : nullptr;
}

const HalfProducts* StoredWeight::halves() const {
  return form_.rounds || data() == nullptr ? nullptr : half_products(dtype());
}

void StoredWeight::widen(int64_t begin, int64_t count, float* to) const {
  if (const auto* file = std::get_if<MappedValues>(&values_)) {
    file->widen(begin, static_cast<size_t>(count), to);
  } else if (const auto* codes = std::get_if<MappedView>(&values_)) {
    codes->widen(begin, count, to);
  } else {
    const auto& held = std::get<HeldValues>(values_);
    // widen() has no result, because kernels call it on several threads. The first error is kept
    // for the run.
    Status decoded = held.view->widen(*held.bytes, begin, count, to);
    if (!decoded) keep_first(*held.failure, std::move(decoded));
  }
  // Rounds here, because the elements of a stored weight never pass through round_elements().
  if (form_.rounds) round_values(DType::f16, to, static_cast<size_t>(count));
}

// Null if the weight is small or not rows of `columns` codes, or if each element is rounded.
const CodedRows* StoredWeight::coded_rows(int64_t columns, ActivationFormat format) const {
  const auto* mapped = std::get_if<MappedView>(&values_);
  const auto* held = std::get_if<HeldValues>(&values_);
  if (!mapped && !held) return nullptr;
  const Type& type = mapped ? mapped->type() : held->view->type();
  const CodedRows* rows = mapped ? &mapped->rows() : held->view->rows();
  const bool is_large = type.elements() >= kStoredElements;
  const bool rounds = form_.rounds && !(rows && skips_rounding(*rows, format));
  return rows && rows->columns == columns && is_large && !rounds ? rows : nullptr;
}

const HeldBytes& StoredWeight::held() const {
  const auto* mapped = std::get_if<MappedView>(&values_);
  return mapped ? mapped->held() : *std::get<HeldValues>(values_).bytes;
}

std::optional<Arrangement> StoredWeight::arrangement(int64_t columns,
                                                     ActivationFormat format) const {
  const CodedRows* rows = coded_rows(columns, format);
  return rows ? arrangement_of(*rows, format) : std::nullopt;
}

// Both kinds of weights hold all bytes of their view.
constexpr const char* kLacksBytes = "rows of codes from {} on lack bytes";

void StoredWeight::dot(const RowRange& rows, const CodedToken& token, float* out) const {
  MOEC_CHECK(dot_coded_rows(*coded_rows(token.columns, token.format), held(), rows, token, out),
             kLacksBytes, rows.first);
}

void StoredWeight::dot(const RowRange& rows, const CodedTokens& tokens, TokenProducts out) const {
  const CodedRows& coded = *coded_rows(tokens.columns(), ActivationFormat::int8);
  MOEC_CHECK(dot_coded_rows(coded, held(), rows, tokens, out), kLacksBytes, rows.first);
}

}  // namespace moec
