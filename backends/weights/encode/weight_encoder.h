// Encodes a weight as its values arrive.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/weights/views/view_series.h"
#include "ir/graph/encoding.h"

namespace moec {

// Returns the number of values that must be held at a time: the shortest run in C order that
// consists of whole blocks, or one row if blocks do not divide it. A weight whose blocks are
// columns must be held completely.
int64_t band_elements(const Encoding& encoding, const Type& type);

// Returns `values`, the whole weight in C order, as a reader of the encoded weight decodes them.
// Error: encode.nonfinite.
Result<std::vector<float>> rounded_values(const Encoding& encoding, const Type& type,
                                          std::span<const std::byte> values);

// Receives the results of an encoder. If `values` is not set, nothing is decoded.
struct EncodedSink {
  TileSink codes;   // the part `codes`
  TileSink values;  // as decoded by a reader, in the weight's element type
};

class WeightEncoder {
 public:
  // The encoding must not be plain and must pass check_encoding().
  WeightEncoder(const Encoding& encoding, const Type& type, CodeForm form = CodeForm::signed_codes);
  ~WeightEncoder();
  WeightEncoder(WeightEncoder&&) noexcept;
  WeightEncoder& operator=(WeightEncoder&&) noexcept;

  // Accepts the next values in C order, in tiles of any length. Writes the results of whole bands
  // to the sink, and after the last value the remaining results. The bytes do not depend on the
  // tiles. Errors: encode.nonfinite (a NaN or infinite value), those of the sink.
  Status add(std::span<const std::byte> tile, const EncodedSink& sink);

  // Returns the bytes of another part; call it after the last value.
  std::span<const std::byte> parameters(WeightPart part) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
