#include "backends/weights/encode/weight_encoder.h"

#include <algorithm>
#include <optional>

#include "backends/weights/convert.h"
#include "backends/weights/encode/affine.h"
#include "backends/weights/encode/palette.h"
#include "backends/weights/pack_bits.h"
#include "backends/weights/strided.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Scales of codes of 4 bits have 8 significant bits, so that all targets decode the same values.
// Those of 8 bits are numbers of f16, so that targets that decode in f16 and in f32 have the same
// scales. A scale is stored in the element type, and bf16 has 8 significant bits.
ScalePrecision precision_of(int64_t bits, DType dtype) {
  return bits == 4 || dtype == DType::bf16 ? ScalePrecision::bits8 : ScalePrecision::f16;
}

const Dims& block_of(const Encoding& encoding) {
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding)) return affine->block;
  const auto* palette = std::get_if<PaletteEncoding>(&encoding);
  MOEC_CHECK(palette, "a plain weight is not encoded");
  return palette->block;
}

// The first axis along which a block has several values; the last axis if there is none. Blocks
// that are next to one another along it begin a band each.
int64_t band_axis(const Dims& block) {
  int64_t axis = 0;
  while (axis + 1 < block.rank() && block.at(axis) == 1) ++axis;
  return axis;
}

Dims band_dims(const Dims& block, const Dims& dims) {
  const int64_t first = band_axis(block);
  Dims band(dims.begin() + first, dims.end());
  band.front() = block.at(first);
  return band;
}

// The walks from a band to each of its blocks, in C order, where values lie side by side.
struct BlockWalk {
  int64_t offset = 0;  // of the block's first value in the band, in values
  Walk walk;           // `from` the band, `to` the block, in values
};

std::vector<BlockWalk> block_walks(const Dims& band, const Dims& block) {
  const Dims from = row_major_steps(band, 1), to = row_major_steps(block, 1);
  Walk inside, between;
  for (int64_t axis = 0; axis < band.rank(); ++axis) {
    inside.push_back({block.at(axis), from.at(axis), to.at(axis)});
    between.push_back({band.at(axis) / block.at(axis), block.at(axis) * from.at(axis), 0});
  }
  std::vector<BlockWalk> walks;
  for_each_offset(between, between.size(), [&](int64_t offset, int64_t) -> Status {
    walks.push_back({offset, inside});
    return {};
  });
  return walks;
}

Walk scaled(Walk walk, int64_t width) {
  for (WalkAxis& axis : walk) axis.from *= width, axis.to *= width;
  return walk;
}

Walk reversed(Walk walk) {
  for (WalkAxis& axis : walk) std::swap(axis.from, axis.to);
  return walk;
}

// Encodes one block after the other; keeps the parameters of all.
class BlockCoder {
 public:
  virtual ~BlockCoder() = default;
  // Values of the weight's element type.
  virtual void encode(std::span<const std::byte> values, std::span<uint8_t> codes) = 0;
  // The values of codes of the last block, before they are rounded to the element type.
  virtual void decode(std::span<const uint8_t> codes, std::span<float> values) const = 0;
  virtual std::vector<std::byte>& parameters(WeightPart part) = 0;
};

void append_floats(DType dtype, std::span<const float> values, std::vector<std::byte>& bytes) {
  const size_t begin = bytes.size();
  bytes.resize(begin + values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  moec::encode(dtype, values.data(), values.size(), bytes.data() + begin);
}

class AffineCoder : public BlockCoder {
 public:
  AffineCoder(const AffineEncoding& affine, DType dtype)
      : options_{static_cast<int>(affine.bits), affine.zero_point,
                 precision_of(affine.bits, dtype)},
        dtype_(dtype) {}

  void encode(std::span<const std::byte> values, std::span<uint8_t> codes) override {
    floats_.resize(codes.size());
    numbers_.resize(codes.size());
    moec::decode(dtype_, values.data(), codes.size(), floats_.data());
    block_ = fit_affine(floats_, options_);
    encode_affine(floats_, block_, options_.bits, numbers_);
    std::transform(numbers_.begin(), numbers_.end(), codes.begin(),
                   [this](int8_t number) { return code_of(number); });
    append_floats(dtype_, std::span(&block_.scale, 1), scales_);
    if (!options_.zero_point) return;
    pending_zeros_.push_back(code_of(static_cast<int8_t>(block_.zero)));
  }

  void decode(std::span<const uint8_t> codes, std::span<float> values) const override {
    const int half = 1 << (options_.bits - 1);
    for (size_t i = 0; i < codes.size(); ++i) {
      const int number = codes[i] < half ? codes[i] : codes[i] - 2 * half;
      values[i] = static_cast<float>(number - block_.zero) * block_.scale;
    }
  }

  std::vector<std::byte>& parameters(WeightPart part) override {
    if (part == WeightPart::scales) return scales_;
    MOEC_CHECK(part == WeightPart::zeros, "affine codes have no {}", enum_name(part));
    zeros_.resize(packed_bytes(pending_zeros_.size(), options_.bits));
    pack_bits(pending_zeros_, options_.bits, zeros_.data());
    return zeros_;
  }

 private:
  // In two's complement.
  uint8_t code_of(int8_t number) const {
    return static_cast<uint8_t>(static_cast<unsigned>(number) & ((1u << options_.bits) - 1));
  }

  AffineOptions options_;
  DType dtype_;
  AffineBlock block_;
  std::vector<float> floats_;
  std::vector<int8_t> numbers_;
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

std::unique_ptr<BlockCoder> coder_of(const Encoding& encoding, DType dtype) {
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding))
    return std::make_unique<AffineCoder>(*affine, dtype);
  return std::make_unique<PaletteCoder>(std::get<PaletteEncoding>(encoding), dtype);
}

int bits_of(const Encoding& encoding) {
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding))
    return static_cast<int>(affine->bits);
  return static_cast<int>(std::get<PaletteEncoding>(encoding).bits);
}

// Packs codes that arrive in runs of any length.
class CodeWriter {
 public:
  explicit CodeWriter(int bits) : bits_(bits) {}

  void add(std::span<const uint8_t> codes) {
    pending_.insert(pending_.end(), codes.begin(), codes.end());
  }
  // Gives the codes that fill whole bytes to the sink, or all of them.
  Status flush(bool all, const TileSink& sink) {
    const size_t count = all ? pending_.size() : pending_.size() / 8 * 8;
    if (count == 0) return {};
    packed_.resize(packed_bytes(count, bits_));
    pack_bits(std::span(pending_).first(count), bits_, packed_.data());
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
    return sink(packed_);
  }

 private:
  int bits_;
  std::vector<uint8_t> pending_;
  std::vector<std::byte> packed_;
};

}  // namespace

int64_t band_elements(const Encoding& encoding, const Type& type) {
  return *checked_elements(band_dims(block_of(encoding), type.dims));
}

struct WeightEncoder::Impl {
  Impl(const Encoding& encoding, const Type& type)
      : dtype(type.dtype),
        width(dtype_bytes(type.dtype)),
        left(type.elements()),
        coder(coder_of(encoding, type.dtype)),
        writer(bits_of(encoding)) {
    const Dims& whole = block_of(encoding);
    const Dims band = band_dims(whole, type.dims);
    const Dims block(whole.begin() + (whole.rank() - band.rank()), whole.end());
    walks = block_walks(band, block);
    band_values = *checked_elements(band);
    block_values = *checked_elements(block);
    codes.resize(static_cast<size_t>(band_values));
    block_codes.resize(static_cast<size_t>(block_values));
    gathered.resize(static_cast<size_t>(block_values * width));
  }

  size_t band_bytes() const { return static_cast<size_t>(band_values * width); }

  Status check_finite(std::span<const std::byte> tile) const {
    if (count_nonfinite(dtype, tile.data(), tile.size() / static_cast<size_t>(width)) == 0)
      return {};
    return fail("encode.nonfinite", "the weight holds NaN or infinite values, which have no code",
                "keep this weight in float, or fetch the checkpoint again");
  }

  void encode_band(const std::byte* band) {
    if (walks.size() == 1) {
      coder->encode({band, band_bytes()}, codes);
    } else {
      for (const BlockWalk& walk : walks) {
        encode_block(band, walk);
        scatter(block_codes, walk, codes.data());
      }
    }
    writer.add(codes);
    left -= band_values;
  }

  void encode_block(const std::byte* band, const BlockWalk& block) {
    copy_strided(band + block.offset * width, gathered.data(), scaled(block.walk, width),
                 static_cast<size_t>(width));
    coder->encode(gathered, block_codes);
  }

  // Writes the elements of a block to their places in the band.
  template <class T>
  void scatter(const std::vector<T>& elements, const BlockWalk& block, T* band) const {
    copy_strided(reinterpret_cast<const std::byte*>(elements.data()),
                 reinterpret_cast<std::byte*>(band + block.offset),
                 scaled(reversed(block.walk), sizeof(T)), sizeof(T));
  }

  // The values that the codes of a band stand for.
  void round_band(const std::byte* band, float* rounded) {
    std::vector<float> values(static_cast<size_t>(block_values));
    for (const BlockWalk& walk : walks) {
      encode_block(band, walk);
      coder->decode(block_codes, values);
      scatter(values, walk, rounded);
    }
  }

  DType dtype;
  int64_t width;
  int64_t left;  // values that have not been encoded
  std::unique_ptr<BlockCoder> coder;
  CodeWriter writer;
  int64_t band_values = 0, block_values = 0;
  std::vector<BlockWalk> walks;
  std::vector<std::byte> held;  // the first values of a band, until the others arrive
  std::vector<uint8_t> codes, block_codes;
  std::vector<std::byte> gathered;
};

WeightEncoder::WeightEncoder(const Encoding& encoding, const Type& type)
    : impl_(std::make_unique<Impl>(encoding, type)) {}
WeightEncoder::~WeightEncoder() = default;
WeightEncoder::WeightEncoder(WeightEncoder&&) noexcept = default;
WeightEncoder& WeightEncoder::operator=(WeightEncoder&&) noexcept = default;

Status WeightEncoder::add(std::span<const std::byte> tile, const TileSink& codes) {
  MOEC_TRY(impl_->check_finite(tile));
  const size_t band = impl_->band_bytes();
  while (!tile.empty()) {
    if (impl_->held.empty() && tile.size() >= band) {
      impl_->encode_band(tile.data());
      tile = tile.subspan(band);
      continue;
    }
    const size_t taken = std::min(tile.size(), band - impl_->held.size());
    impl_->held.insert(impl_->held.end(), tile.begin(),
                       tile.begin() + static_cast<std::ptrdiff_t>(taken));
    tile = tile.subspan(taken);
    if (impl_->held.size() < band) continue;
    impl_->encode_band(impl_->held.data());
    impl_->held.clear();
  }
  return impl_->writer.flush(impl_->left == 0, codes);
}

Result<std::vector<float>> rounded_values(const Encoding& encoding, const Type& type,
                                          std::span<const std::byte> values) {
  WeightEncoder::Impl coding(encoding, type);
  MOEC_TRY(coding.check_finite(values));
  std::vector<float> rounded(static_cast<size_t>(type.elements()));
  const auto band = static_cast<size_t>(coding.band_values);
  for (size_t at = 0; at < rounded.size(); at += band)
    coding.round_band(values.data() + at * static_cast<size_t>(coding.width), rounded.data() + at);
  std::vector<std::byte> stored;
  append_floats(type.dtype, rounded, stored);
  decode(type.dtype, stored.data(), rounded.size(), rounded.data());
  return rounded;
}

std::span<const std::byte> WeightEncoder::parameters(WeightPart part) const {
  MOEC_CHECK(impl_->left == 0, "{} values of a weight are not encoded yet", impl_->left);
  return impl_->coder->parameters(part);
}

}  // namespace moec
