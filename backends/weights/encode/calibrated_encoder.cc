#include "backends/weights/encode/calibrated_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/weights/encode/band_codes.h"
#include "backends/weights/encode/code_writer.h"
#include "backends/weights/encode/decode_parts.h"
#include "backends/weights/encode/part_values.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Minimum rows of a band: enough to amortise reading a factor, few enough to keep the band small
// next to it. The smaller number applies if the factor of all inputs does not fit in memory at
// once.
constexpr int64_t kBandRows = 256, kWideBandRows = 64;
// In blocks of 16 inputs, error feedback gained nothing (README.md).
constexpr int64_t kLeastBlock = 64;
// Bytes per value of a band while its codes are chosen: the stored value, its f32 value, three
// codes, error, gradient, and the decoded value.
constexpr int64_t kBytesPerBandValue = 32;

// Outputs per index of the first axis; all outputs if the weight is transposed.
int64_t outputs_of(const CodeBlocks& blocks, const Type& type) {
  return blocks.transposed ? blocks.rows : blocks.rows / type.dims.at(0);
}

// Returns the size of a band along the first axis. A weight whose inputs come first is a single
// band.
int64_t band_size(const Encoding& encoding, const Type& type, const CodeBlocks& blocks,
                  int64_t input_axis, size_t metrics) {
  const int64_t most_rows = metrics == 1 ? kBandRows : kWideBandRows;
  const int64_t all = type.dims.at(0);
  if (blocks.transposed || input_axis == 0) return all;
  const int64_t block = block_of(encoding).at(0), rows = block * outputs_of(blocks, type);
  // A band contains whole blocks, because rows that share a scale or table are encoded together.
  return std::min(all, block * std::max<int64_t>(1, most_rows / rows));
}

Type with_first_size(Type type, int64_t size) {
  type.dims.at(0) = size;
  return type;
}

Status check_metrics(const CodeBlocks& blocks, std::span<const ErrorMetric> metrics) {
  int64_t inputs = 0;
  for (const ErrorMetric& metric : metrics) inputs += metric.size;
  if (inputs == blocks.columns) return {};
  return fail(
      "calibrate.hessian_size",
      fmt::format("the calibration has {} inputs, the weight has {}", inputs, blocks.columns),
      "calibrate this checkpoint again with moec calibrate");
}

}  // namespace

MetricParts metric_parts(const Encoding& encoding) {
  const auto* palette = std::get_if<PaletteEncoding>(&encoding);
  return palette && table_rounds(palette->bits) > 0 ? MetricParts::factor_and_hessian
                                                    : MetricParts::factor;
}

int64_t calibrated_bytes(const Encoding& encoding, const Type& type, int64_t blocks) {
  const int64_t inputs = (type.dims.at(1) + blocks - 1) / blocks;
  const auto shape = code_blocks(encoding, type, 1);
  const int64_t rows =
      shape ? band_size(encoding, type, *shape, 1, static_cast<size_t>(blocks)) : type.dims.at(0);
  int64_t bytes = blocks * metric_bytes(inputs, metric_parts(encoding)) +
                  with_first_size(type, rows).elements() * kBytesPerBandValue;
  for (const StoredPart& part : stored_parts(encoding, type))
    if (part.part != WeightPart::codes) bytes += part.type.bytes();
  return bytes;
}

int64_t input_blocks(const Encoding& encoding, const Type& type, const EncoderLimit& limit) {
  const int64_t inputs = type.dims.at(1);
  const auto fits = [&](int64_t blocks, uint64_t bytes) {
    return static_cast<uint64_t>(calibrated_bytes(encoding, type, blocks)) <= bytes;
  };
  if (inputs <= limit.inputs && fits(1, limit.bytes)) return 1;
  // At least 2 blocks, because one block does not fit. The division rounds up.
  int64_t blocks = std::max<int64_t>(2, (inputs - 1) / limit.inputs + 1);
  // The number of blocks affects the exported bytes. So it depends only on the encoding, the type
  // and the limits.
  while (!fits(blocks, limit.bytes / 8 * 7) && inputs / (blocks + 1) >= kLeastBlock) ++blocks;
  return std::min(blocks, inputs);
}

class CalibratedEncoder::Impl {
 public:
  Impl(const Encoding& encoding, const Type& type, const CalibratedInputs& inputs, CodeForm form,
       const CodeBlocks& blocks)
      : encoding_(encoding),
        band_(with_first_size(
            type, band_size(encoding, type, blocks, inputs.axis, inputs.metrics.size()))),
        inputs_(inputs),
        form_(form),
        bits_(code_bits(encoding)),
        across_(static_cast<size_t>(block_counts(encoding, type).back())),
        left_(type.dims.at(0)),
        writer_(static_cast<int>(bits_)) {}

  int64_t left() const { return left_; }
  double nearest_error() const { return nearest_error_; }
  double error() const { return error_; }

  Status add(std::span<const std::byte> tile, const EncodedSink& sink) {
    while (!tile.empty()) {
      begin_band();
      const auto band = static_cast<size_t>(band_.bytes());
      // Bands begin at fixed rows, so the bytes do not depend on how the values are cut into tiles.
      const size_t taken = std::min(tile.size(), band - held_.size());
      held_.insert(held_.end(), tile.begin(), tile.begin() + static_cast<std::ptrdiff_t>(taken));
      tile = tile.subspan(taken);
      if (held_.size() == band) MOEC_TRY(encode_band(sink));
    }
    return {};
  }

  std::span<const std::byte> parameters(WeightPart part) {
    if (part != WeightPart::zeros) return parameters_;
    if (form_ == CodeForm::signed_codes) {
      packed_zeros_ = packed(zeros_, bits_);
      return packed_zeros_;
    }
    // With CodeForm::excess, the zeros of each row fill whole bytes, as in AffineCoder::add_zero().
    packed_zeros_.clear();
    for (size_t begin = 0; begin < zeros_.size(); begin += across_) {
      const auto row = packed(std::span(zeros_).subspan(begin, across_), bits_);
      packed_zeros_.insert(packed_zeros_.end(), row.begin(), row.end());
    }
    return packed_zeros_;
  }

 private:
  // Begins the next band; the last one may be smaller.
  void begin_band() {
    band_ = with_first_size(band_, std::min(left_, band_.dims.at(0)));
    held_.reserve(static_cast<size_t>(band_.bytes()));
  }

  Status encode_band(const EncodedSink& sink) {
    // The blocks of the band, not of the weight: the last band can have fewer rows.
    MOEC_ASSIGN(const CodeBlocks blocks, code_blocks(encoding_, band_, inputs_.axis));
    MOEC_ASSIGN(BandCodes coded, code_band(encoding_, band_, blocks, held_, inputs_.metrics));
    held_.clear();
    left_ -= band_.dims.at(0);
    nearest_error_ += coded.nearest_error;
    error_ += coded.error;
    // Decoded before add_excess(), because decode_parts() expects two's complement by default.
    if (sink.values)
      MOEC_TRY(sink.values(decode_parts(
          encoding_, band_,
          {packed(coded.codes, bits_), coded.parameters, packed(coded.zeros, bits_)})));
    parameters_.insert(parameters_.end(), coded.parameters.begin(), coded.parameters.end());
    add_excess(coded.codes);
    add_excess(coded.zeros);
    zeros_.insert(zeros_.end(), coded.zeros.begin(), coded.zeros.end());
    writer_.add(coded.codes);
    // Codes after the last group of eight wait for the next band.
    return writer_.flush(left_ == 0, sink.codes);
  }

  // Converts two's complement to codes with an excess of 2^(bits − 1) by flipping the highest bit.
  void add_excess(std::vector<uint8_t>& codes) const {
    if (form_ != CodeForm::excess) return;
    for (uint8_t& code : codes) code ^= static_cast<uint8_t>(1 << (bits_ - 1));
  }

  Encoding encoding_;
  Type band_;
  CalibratedInputs inputs_;
  CodeForm form_;
  int64_t bits_;
  size_t across_;                // blocks per row
  int64_t left_;                 // size along the first axis that is not encoded yet
  std::vector<std::byte> held_;  // first values of a band, kept until the rest arrive
  CodeWriter writer_;
  std::vector<std::byte> parameters_, packed_zeros_;
  std::vector<uint8_t> zeros_;
  double nearest_error_ = 0, error_ = 0;
};

CalibratedEncoder::CalibratedEncoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CalibratedEncoder::~CalibratedEncoder() = default;
CalibratedEncoder::CalibratedEncoder(CalibratedEncoder&&) noexcept = default;
CalibratedEncoder& CalibratedEncoder::operator=(CalibratedEncoder&&) noexcept = default;

Result<CalibratedEncoder> CalibratedEncoder::create(const Encoding& encoding, const Type& type,
                                                    const CalibratedInputs& inputs, CodeForm form) {
  MOEC_ASSIGN(const CodeBlocks blocks, code_blocks(encoding, type, inputs.axis));
  MOEC_TRY(check_metrics(blocks, inputs.metrics));
  return CalibratedEncoder(std::make_unique<Impl>(encoding, type, inputs, form, blocks));
}

Status CalibratedEncoder::add(std::span<const std::byte> tile, const EncodedSink& sink) {
  return impl_->add(tile, sink);
}

std::span<const std::byte> CalibratedEncoder::parameters(WeightPart part) const {
  MOEC_CHECK(impl_->left() == 0, "{} rows of a weight are not encoded yet", impl_->left());
  return impl_->parameters(part);
}

double CalibratedEncoder::nearest_error() const { return impl_->nearest_error(); }
double CalibratedEncoder::error() const { return impl_->error(); }

}  // namespace moec
