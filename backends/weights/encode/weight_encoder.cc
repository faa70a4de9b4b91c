#include "backends/weights/encode/weight_encoder.h"

#include <algorithm>
#include <optional>

#include "backends/weights/encode/affine.h"
#include "backends/weights/encode/affine_kernels.h"
#include "backends/weights/encode/code_writer.h"
#include "backends/weights/encode/palette.h"
#include "backends/weights/views/convert.h"
#include "backends/weights/views/pack_bits.h"
#include "backends/weights/views/strided.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Scales of 4-bit codes have 8 significant bits, so that all targets decode the same values. Scales
// of 8-bit codes are f16 numbers, so that targets that decode in f16 and in f32 use the same
// scales. A scale is stored in the element type; bf16 has 8 significant bits.
ScalePrecision precision_of(int64_t bits, DType dtype) {
  return bits == 4 || dtype == DType::bf16 ? ScalePrecision::bits8 : ScalePrecision::f16;
}

// Returns the first axis along which a block has several values; the last axis if there is none.
// Each block along this axis begins a new band.
int64_t band_axis(const Dims& block) {
  int64_t axis = 0;
  while (axis + 1 < block.rank() && block.at(axis) == 1) ++axis;
  return axis;
}

Dims band_dims(const Dims& block, const Dims& dims) {
  const int64_t first = band_axis(block);
  Dims band(dims.begin() + first, dims.end());
  // If blocks do not divide the axis, its last block is partial. The whole axis is then a band.
  if (band.front() % block.at(first) == 0) band.front() = block.at(first);
  return band;
}

// A band may have only 32 values, so the sink receives the values of many bands in one call.
constexpr size_t kDeliveredBytes = 64 << 10;

// Walks between a band and one of its blocks, whose values are contiguous in C order.
struct BlockWalk {
  int64_t values = 0;  // offset of the block's first value in the band
  int64_t codes = 0;  // offset of its first code in the codes of the band, whose rows may be padded
  int64_t count = 1;  // values of the block
  Walk of_values, of_codes;  // `from` the band, `to` the block
};

// Positions of the blocks in a band and in its codes.
class BandShape {
 public:
  BandShape(const Dims& band, const Dims& block)
      : band_(band), block_(block), codes_(band), value_steps_(row_major_steps(band, 1)) {
    // Rows of codes are padded to whole blocks, as the formats store them.
    codes_.back() = (band.back() + block.back() - 1) / block.back() * block.back();
    code_steps_ = row_major_steps(codes_, 1);
  }

  int64_t values() const { return *checked_elements(band_); }
  int64_t codes() const { return *checked_elements(codes_); }

  std::vector<BlockWalk> walks() const {
    std::vector<BlockWalk> walks;
    Dims begin(band_.size(), 0);
    do walks.push_back(walk_from(begin));
    while (advance(begin));
    return walks;
  }

 private:
  BlockWalk walk_from(const Dims& begin) const {
    BlockWalk walk;
    Dims extent = block_;
    // Only the last axis can have a partial block.
    extent.back() = std::min(block_.back(), band_.back() - begin.back());
    const Dims steps = row_major_steps(extent, 1);
    for (int64_t axis = 0; axis < band_.rank(); ++axis) {
      walk.values += begin.at(axis) * value_steps_.at(axis);
      walk.codes += begin.at(axis) * code_steps_.at(axis);
      walk.count *= extent.at(axis);
      walk.of_values.push_back({extent.at(axis), value_steps_.at(axis), steps.at(axis)});
      walk.of_codes.push_back({extent.at(axis), code_steps_.at(axis), steps.at(axis)});
    }
    return walk;
  }

  // Advances to the first value of the next block in C order.
  bool advance(Dims& begin) const {
    for (int64_t axis = band_.rank(); axis-- > 0;) {
      begin.at(axis) += block_.at(axis);
      if (begin.at(axis) < band_.at(axis)) return true;
      begin.at(axis) = 0;
    }
    return false;
  }

  Dims band_, block_, codes_, value_steps_, code_steps_;
};

Walk scaled(Walk walk, int64_t width) {
  for (WalkAxis& axis : walk) axis.from *= width, axis.to *= width;
  return walk;
}

// The walk of the copy in the opposite direction, from the block to the band.
Walk reversed(Walk walk) {
  for (WalkAxis& axis : walk) std::swap(axis.from, axis.to);
  return walk;
}

// Encodes blocks in sequence and collects their parameters.
class BlockCoder {
 public:
  virtual ~BlockCoder() = default;
  // `values` are in the weight's element type.
  virtual void encode(std::span<const std::byte> values, std::span<uint8_t> codes) = 0;
  // Decodes codes of the last block, without rounding to the element type.
  virtual void decode(std::span<const uint8_t> codes, std::span<float> values) const = 0;
  virtual std::vector<std::byte>& parameters(WeightPart part) = 0;
  // Code for the padding of rows.
  virtual uint8_t filler() const { return 0; }
};

void append_floats(DType dtype, std::span<const float> values, std::vector<std::byte>& bytes) {
  const size_t begin = bytes.size();
  bytes.resize(begin + values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  moec::encode(dtype, values.data(), values.size(), bytes.data() + begin);
}

class AffineCoder : public BlockCoder {
 public:
  AffineCoder(const AffineEncoding& affine, const Type& type, CodeForm form)
      : options_{static_cast<int>(affine.bits), affine.zero_point,
                 precision_of(affine.bits, type.dtype)},
        dtype_(type.dtype),
        form_(form),
        zeros_in_row_(static_cast<size_t>(block_counts(affine, type).back())) {}

  uint8_t filler() const override { return stored(0); }

  void encode(std::span<const std::byte> values, std::span<uint8_t> codes) override {
    floats_.resize(codes.size());
    moec::decode(dtype_, values.data(), codes.size(), floats_.data());
    block_ = fit_affine(floats_, options_);
    encode_affine(floats_, block_, options_.bits, form_, codes);
    append_floats(dtype_, std::span(&block_.scale, 1), scales_);
    if (options_.zero_point) add_zero();
  }

  void decode(std::span<const uint8_t> codes, std::span<float> values) const override {
    decode_affine(codes, block_, options_.bits, form_, values);
  }

  std::vector<std::byte>& parameters(WeightPart part) override {
    if (part == WeightPart::scales) return scales_;
    MOEC_CHECK(part == WeightPart::zeros, "affine codes have no {}", enum_name(part));
    // Packed here because zeros of several bands can share a byte.
    zeros_.resize(packed_bytes(pending_zeros_.size(), options_.bits));
    pack_bits(pending_zeros_, options_.bits, zeros_.data());
    return zeros_;
  }

 private:
  uint8_t stored(int number) const {
    return AffineCodes{options_.bits, form_ == CodeForm::excess}.stored(number);
  }

  void add_zero() {
    pending_zeros_.push_back(stored(block_.zero));
    // With CodeForm::excess, each row of zeros begins at a byte, as MatMulNBits reads them.
    if (form_ == CodeForm::signed_codes || ++zeros_of_row_ < zeros_in_row_) return;
    zeros_of_row_ = 0;
    const auto per_byte = static_cast<size_t>(8 / options_.bits);
    while (pending_zeros_.size() % per_byte != 0) pending_zeros_.push_back(0);
  }

  AffineOptions options_;
  DType dtype_;
  CodeForm form_;
  size_t zeros_in_row_, zeros_of_row_ = 0;
  AffineBlock block_;
  std::vector<float> floats_;
  std::vector<uint8_t> pending_zeros_;
  std::vector<std::byte> scales_, zeros_;
};

class PaletteCoder : public BlockCoder {
 public:
  PaletteCoder(const PaletteEncoding& palette, DType dtype)
      : encoder_(dtype, static_cast<int>(palette.bits)), dtype_(dtype) {}

  void encode(std::span<const std::byte> values, std::span<uint8_t> codes) override {
    entries_ = encoder_.encode(values, codes);
    append_floats(dtype_, entries_, table_);
  }

  void decode(std::span<const uint8_t> codes, std::span<float> values) const override {
    for (size_t i = 0; i < codes.size(); ++i) values[i] = entries_[codes[i]];
  }

  std::vector<std::byte>& parameters(WeightPart part) override {
    MOEC_CHECK(part == WeightPart::table, "a palette has no {}", enum_name(part));
    return table_;
  }

 private:
  PaletteEncoder encoder_;
  DType dtype_;
  std::vector<float> entries_;
  std::vector<std::byte> table_;
};

std::unique_ptr<BlockCoder> coder_of(const Encoding& encoding, const Type& type, CodeForm form) {
  MOEC_CHECK(!is_plain(encoding), "a plain weight is not encoded");
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding))
    return std::make_unique<AffineCoder>(*affine, type, form);
  return std::make_unique<PaletteCoder>(std::get<PaletteEncoding>(encoding), type.dtype);
}

int bits_of(const Encoding& encoding) {
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding))
    return static_cast<int>(affine->bits);
  return static_cast<int>(std::get<PaletteEncoding>(encoding).bits);
}

}  // namespace

int64_t band_elements(const Encoding& encoding, const Type& type) {
  return *checked_elements(band_dims(block_of(encoding), type.dims));
}

class WeightEncoder::Impl {
 public:
  Impl(const Encoding& encoding, const Type& type, CodeForm form)
      : dtype_(type.dtype),
        width_(dtype_bytes(type.dtype)),
        left_(type.elements()),
        coder_(coder_of(encoding, type, form)),
        writer_(bits_of(encoding)) {
    const Dims block = block_of(encoding);
    const Dims band = band_dims(block, type.dims);
    const BandShape shape(band, Dims(block.begin() + (block.rank() - band.rank()), block.end()));
    walks_ = shape.walks();
    band_values_ = static_cast<size_t>(shape.values());
    // The padding is written once: scatter() only overwrites the codes of values.
    codes_.assign(static_cast<size_t>(shape.codes()), coder_->filler());
  }

  int64_t left() const { return left_; }
  std::span<const std::byte> parameters(WeightPart part) { return coder_->parameters(part); }

  Status add(std::span<const std::byte> tile, const EncodedSink& sink) {
    // Checked before any code of the tile is written: a NaN or an infinity would make the scale of
    // its block invalid.
    MOEC_TRY(check_finite(tile));
    const size_t band = band_values_ * static_cast<size_t>(width_);
    while (!tile.empty()) {
      // A whole band within the tile is encoded without a copy.
      if (held_.empty() && tile.size() >= band) {
        MOEC_TRY(encode_band(tile.data(), sink));
        tile = tile.subspan(band);
        continue;
      }
      const size_t taken = std::min(tile.size(), band - held_.size());
      held_.insert(held_.end(), tile.begin(), tile.begin() + static_cast<std::ptrdiff_t>(taken));
      tile = tile.subspan(taken);
      if (held_.size() < band) continue;
      MOEC_TRY(encode_band(held_.data(), sink));
      held_.clear();
    }
    MOEC_TRY(deliver_values(sink));
    return writer_.flush(left_ == 0, sink.codes);
  }

 private:
  Status check_finite(std::span<const std::byte> tile) const {
    if (count_nonfinite(dtype_, tile.data(), tile.size() / static_cast<size_t>(width_)) == 0)
      return {};
    return fail("encode.nonfinite",
                "the weight contains NaN or infinite values, which have no code",
                "keep this weight in float, or download the checkpoint again");
  }

  Status encode_band(const std::byte* band, const EncodedSink& sink) {
    // Decoding takes time, so it happens only if the caller requests the values.
    if (sink.values) values_.resize(band_values_);
    for (const BlockWalk& walk : walks_) encode_block(band, walk, sink.values != nullptr);
    writer_.add(codes_);
    left_ -= static_cast<int64_t>(band_values_);
    if (!sink.values) return {};
    append_floats(dtype_, values_, stored_);
    return stored_.size() < kDeliveredBytes ? Status() : deliver_values(sink);
  }

  Status deliver_values(const EncodedSink& sink) {
    if (stored_.empty()) return {};
    MOEC_TRY(sink.values(stored_));
    stored_.clear();
    return {};
  }

  void encode_block(const std::byte* band, const BlockWalk& walk, bool decodes) {
    const auto count = static_cast<size_t>(walk.count);
    if (walks_.size() == 1 && count == codes_.size()) {  // the band is the block
      coder_->encode({band, count * static_cast<size_t>(width_)}, codes_);
      if (decodes) coder_->decode(codes_, values_);
      return;
    }
    gathered_.resize(count * static_cast<size_t>(width_));
    block_codes_.resize(count);
    copy_strided(band + walk.values * width_, gathered_.data(), scaled(walk.of_values, width_),
                 static_cast<size_t>(width_));
    coder_->encode(gathered_, block_codes_);
    scatter(block_codes_, walk.of_codes, codes_.data() + walk.codes);
    if (!decodes) return;
    block_values_.resize(count);
    coder_->decode(block_codes_, block_values_);
    scatter(block_values_, walk.of_values, values_.data() + walk.values);
  }

  // Writes the elements of a block to their positions in the band.
  template <class T>
  static void scatter(const std::vector<T>& elements, const Walk& walk, T* band) {
    copy_strided(reinterpret_cast<const std::byte*>(elements.data()),
                 reinterpret_cast<std::byte*>(band), scaled(reversed(walk), sizeof(T)), sizeof(T));
  }

  DType dtype_;
  int64_t width_;
  int64_t left_;  // values that are not encoded yet
  std::unique_ptr<BlockCoder> coder_;
  CodeWriter writer_;
  std::vector<BlockWalk> walks_;
  size_t band_values_ = 0;
  std::vector<std::byte> held_;    // first values of a band, kept until the rest arrive
  std::vector<uint8_t> codes_;     // of a band
  std::vector<float> values_;      // of a band, decoded
  std::vector<std::byte> stored_;  // decoded values that the sink has not received
  std::vector<std::byte> gathered_;
  std::vector<uint8_t> block_codes_;
  std::vector<float> block_values_;
};

WeightEncoder::WeightEncoder(const Encoding& encoding, const Type& type, CodeForm form)
    : impl_(std::make_unique<Impl>(encoding, type, form)) {}
WeightEncoder::~WeightEncoder() = default;
WeightEncoder::WeightEncoder(WeightEncoder&&) noexcept = default;
WeightEncoder& WeightEncoder::operator=(WeightEncoder&&) noexcept = default;

Status WeightEncoder::add(std::span<const std::byte> tile, const EncodedSink& sink) {
  return impl_->add(tile, sink);
}

Result<std::vector<float>> rounded_values(const Encoding& encoding, const Type& type,
                                          std::span<const std::byte> values) {
  WeightEncoder encoder(encoding, type);
  std::vector<float> rounded;
  rounded.reserve(static_cast<size_t>(type.elements()));
  const EncodedSink sink{[](std::span<const std::byte>) -> Status { return {}; },
                         [&](std::span<const std::byte> decoded) -> Status {
                           const size_t begin = rounded.size();
                           const size_t count =
                               decoded.size() / static_cast<size_t>(dtype_bytes(type.dtype));
                           rounded.resize(begin + count);
                           decode(type.dtype, decoded.data(), count, rounded.data() + begin);
                           return {};
                         }};
  MOEC_TRY(encoder.add(values, sink));
  return rounded;
}

std::span<const std::byte> WeightEncoder::parameters(WeightPart part) const {
  MOEC_CHECK(impl_->left() == 0, "{} values of a weight are not encoded yet", impl_->left());
  return impl_->parameters(part);
}

}  // namespace moec
