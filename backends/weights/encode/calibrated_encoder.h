// Encodes a weight with the inputs that it gets: its codes are chosen for the least error of its
// outputs instead of its values (GPTQ, and LNQ for palettes of few bits).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/weights/encode/error_feedback.h"
#include "backends/weights/encode/weight_encoder.h"

namespace moec {

// The metrics of consecutive ranges of inputs: one, or those of several experts whose matrices
// stand beside one another. They outlive what is made with them.
struct CalibratedInputs {
  std::span<const ErrorMetric> metrics;
  int64_t axis = 1;  // of the weight, which counts the inputs
};

// Which metrics a calibrated encoder needs: tables are fitted only where they have few entries.
MetricParts metric_parts(const Encoding& encoding);

// The most bytes that a calibrated encoder takes with metrics of so many blocks of about equal size
// of all inputs, the metrics included: 4·K² / blocks for their factors, again as much for their
// Hessians where tables are fitted, a band of some 256 rows, or of 64 with several blocks, and
// scales or tables, which are kept to the end.
int64_t calibrated_bytes(const Encoding& encoding, const Type& type, int64_t blocks = 1);

// What encoding a weight with a calibration may take.
struct EncoderLimit {
  uint64_t bytes = uint64_t{1} << 62;
  int64_t inputs = int64_t{1} << 62;  // of a block
  bool operator==(const EncoderLimit&) const = default;
};

// The fewest blocks of inputs with which a calibrated encoder keeps the limit. Where one block does
// not, an eighth of the bytes is left free. Blocks have at least 64 inputs, or as many as the limit
// says: a limit of bytes below that is not kept.
int64_t input_blocks(const Encoding& encoding, const Type& type, const EncoderLimit& limit);

// Takes the values as WeightEncoder does, and gives the same parts with other codes and, for
// palettes of at most 3 bits, other entries. Rows do not depend on one another, only on those with
// which they share a table or a scale: they are encoded in bands of at least 256 rows. Where error
// feedback gains nothing for a row of weights or for a table, its codes are those of WeightEncoder;
// so without any tokens all are.
class CalibratedEncoder {
 public:
  // The encoding is not plain and meets check_encoding(); the metrics have the parts of
  // metric_parts(). Errors: calibrate.shape; calibrate.hessian_size where the metrics are not of as
  // many inputs as the weight has.
  static Result<CalibratedEncoder> create(const Encoding& encoding, const Type& type,
                                          const CalibratedInputs& inputs,
                                          CodeForm form = CodeForm::signed_codes);
  ~CalibratedEncoder();
  CalibratedEncoder(CalibratedEncoder&&) noexcept;
  CalibratedEncoder& operator=(CalibratedEncoder&&) noexcept;

  // As those of WeightEncoder.
  Status add(std::span<const std::byte> tile, const EncodedSink& sink);
  std::span<const std::byte> parameters(WeightPart part) const;

  // Squared error of all outputs per token, under the shrunk Hessians, of what was added: with the
  // codes that WeightEncoder gives, and with these, which is never larger.
  double nearest_error() const;
  double error() const;

 private:
  class Impl;
  explicit CalibratedEncoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
