#include "ir/analysis/code_bits.h"

#include <algorithm>

namespace moec {
namespace {

using Bits = std::optional<int64_t>;

// If only one value is present, it is the result: an absent value means no codes.
Bits fewer(Bits a, Bits b) { return a && b ? std::min(a, b) : a ? a : b; }

// Returns the bits per number; several numbers can share an element of the stored type.
int64_t bits_of(Packing packing) {
  const PackedRun run = packed_run(packing);
  return dtype_bytes(run.dtype) * 8 * run.elements / run.numbers;
}

Bits bits_of(const WeightView& view) {
  Bits bits;
  // Scales, zero points and tables are views, too, but have no codes, so they are not searched.
  if (const auto* joined = std::get_if<ConcatSource>(&view.source))
    for (const WeightView& part : joined->parts) bits = fewer(bits, bits_of(part));
  for (const ViewStep& step : view.steps)
    if (const auto* unpack = std::get_if<UnpackStep>(&step))
      bits = fewer(bits, bits_of(unpack->packing));
  return bits;
}

Bits bits_of(const Encoding& encoding) { return is_plain(encoding) ? Bits() : code_bits(encoding); }

}  // namespace

std::optional<int64_t> fewest_code_bits(const Shard& shard) {
  Bits bits;
  for (const Op& op : shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data))
      bits = fewer(bits, fewer(bits_of(weight->view), bits_of(weight->encoding)));
  return bits;
}

}  // namespace moec
