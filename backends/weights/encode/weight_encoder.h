// Encodes a weight while its values arrive.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/weights/views/view_series.h"
#include "ir/graph/encoding.h"

namespace moec {

// How many values must be held at a time: the shortest run in C order that is made up of whole
// blocks, or a row where blocks do not divide it. A weight whose blocks are columns must be held
// whole.
int64_t band_elements(const Encoding& encoding, const Type& type);

// The values that a reader of the encoded weight gets: `values`, all those of the weight in C
// order, rounded to what its codes can hold. Errors: encode.nonfinite.
Result<std::vector<float>> rounded_values(const Encoding& encoding, const Type& type,
                                          std::span<const std::byte> values);

// Takes what becomes of the values. Without `values`, nothing is decoded.
struct EncodedSink {
  TileSink codes;   // the part `codes`
  TileSink values;  // what a reader of the encoded weight gets, in the weight's element type
};

class WeightEncoder {
 public:
  // The encoding is not plain and meets check_encoding().
  WeightEncoder(const Encoding& encoding, const Type& type, CodeForm form = CodeForm::signed_codes);
  ~WeightEncoder();
  WeightEncoder(WeightEncoder&&) noexcept;
  WeightEncoder& operator=(WeightEncoder&&) noexcept;

  // Takes the next values, in C order, in tiles of any length, and gives what becomes of whole
  // bands to the sink; after the last value, all that is left. The bytes of all calls are the same
  // whatever the tiles. Errors: encode.nonfinite (a NaN or an infinite value), those of the sink.
  Status add(std::span<const std::byte> tile, const EncodedSink& sink);

  // The bytes of another part, after the last value.
  std::span<const std::byte> parameters(WeightPart part) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
