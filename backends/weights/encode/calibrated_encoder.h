// Encodes a weight using statistics of its inputs: chooses codes that minimise the error of the
// outputs instead of the values (GPTQ, and LNQ for palettes of at most 3 bits).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/weights/encode/error_feedback.h"
#include "backends/weights/encode/weight_encoder.h"

namespace moec {

// Metrics of consecutive ranges of inputs: a single one, or one per expert whose matrices are
// concatenated. The metrics must outlive their encoders.
struct CalibratedInputs {
  std::span<const ErrorMetric> metrics;
  int64_t axis = 1;  // axis of the weight that counts the inputs
};

// Returns the parts of metrics that a calibrated encoder needs: the Hessian only if tables are
// fitted.
MetricParts metric_parts(const Encoding& encoding);

// Returns the maximum bytes of a calibrated encoder with K inputs cut into `blocks` blocks of about
// equal size. Includes metrics: 4·K² / blocks for the factors, and the same for the Hessians if
// tables are fitted; a band of about 256 rows (64 with several blocks); all scales or tables.
int64_t calibrated_bytes(const Encoding& encoding, const Type& type, int64_t blocks = 1);

// Memory limits of encoding a weight with a calibration.
struct EncoderLimit {
  uint64_t bytes = uint64_t{1} << 62;
  int64_t inputs = int64_t{1} << 62;  // per block
  bool operator==(const EncoderLimit&) const = default;
};

// Returns the minimum number of input blocks with which a calibrated encoder stays within `limit`.
// If one block does not fit, an eighth of the bytes is left free. Blocks have at least 64 inputs,
// or `limit.inputs` if that is smaller; a byte limit that requires smaller blocks is exceeded.
int64_t input_blocks(const Encoding& encoding, const Type& type, const EncoderLimit& limit);

// Accepts values as WeightEncoder does. Returns parts of the same format, but with other codes and,
// for palettes of at most 3 bits, other entries. Rows interact only if they share a table or a
// scale, so they are encoded in bands of at least 256 rows. If error feedback gains nothing for a
// row or a table, its codes are those of WeightEncoder; without tokens, this is the case for all
// rows.
class CalibratedEncoder {
 public:
  // The encoding must not be plain and must pass check_encoding(); the metrics need the parts of
  // metric_parts(). Errors: calibrate.shape; calibrate.hessian_size (metrics and weight differ in
  // the number of inputs).
  static Result<CalibratedEncoder> create(const Encoding& encoding, const Type& type,
                                          const CalibratedInputs& inputs,
                                          CodeForm form = CodeForm::signed_codes);
  ~CalibratedEncoder();
  CalibratedEncoder(CalibratedEncoder&&) noexcept;
  CalibratedEncoder& operator=(CalibratedEncoder&&) noexcept;

  // Same contracts as in WeightEncoder.
  Status add(std::span<const std::byte> tile, const EncodedSink& sink);
  std::span<const std::byte> parameters(WeightPart part) const;

  // Squared error of all outputs per token under the shrunk Hessians, for the values added so far:
  // with the codes of WeightEncoder, and with the chosen codes, which is never larger.
  double nearest_error() const;
  double error() const;

 private:
  class Impl;
  explicit CalibratedEncoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
