#include "backends/weights/encode/code_writer.h"

#include "backends/weights/views/pack_bits.h"

namespace moec {

Status CodeWriter::flush(bool all, const TileSink& sink) {
  // Eight codes of any bit width fill whole bytes.
  const size_t count = all ? pending_.size() : pending_.size() / 8 * 8;
  if (count == 0) return {};
  // Codes of 8 bits are bytes already, so the copy for packing is unnecessary.
  if (bits_ == 8) {
    const Status taken = sink(std::as_bytes(std::span(pending_).first(count)));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
    return taken;
  }
  packed_.resize(packed_bytes(count, bits_));
  pack_bits(std::span(pending_).first(count), bits_, packed_.data());
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
  return sink(packed_);
}

}  // namespace moec
