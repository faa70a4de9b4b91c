#include "backends/formats/coreml/weight_blobs.h"

#include <array>
#include <bit>
#include <cstring>

#include "backends/emit/write_weights.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kHeadBytes = 64;
using Head = std::array<std::byte, kHeadBytes>;

// Uses memcpy(), because `head` is an array of bytes, which need not be aligned for T.
template <class T>
void put(Head& head, size_t offset, T value) {
  std::memcpy(head.data() + offset, &value, sizeof value);
}

uint64_t round_up(uint64_t position) {
  return (position + kBlobFormat.alignment - 1) / kBlobFormat.alignment * kBlobFormat.alignment;
}

// The layout contains only f16 and f32 values besides codes (write_blobs()).
BlobDType blob_dtype(DType dtype) { return dtype == DType::f16 ? BlobDType::f16 : BlobDType::f32; }

BlobDType blob_dtype(Packing packing) {
  switch (packing) {
    case Packing::u1:
      return BlobDType::u1;
    case Packing::u2:
      return BlobDType::u2;
    case Packing::u3:
      return BlobDType::u3;
    case Packing::u4:
      return BlobDType::u4;
    case Packing::u6:
      return BlobDType::u6;
    case Packing::u8:
      return BlobDType::u8;
    case Packing::i4:
      return BlobDType::i4;
    case Packing::i8:
      return BlobDType::i8;
    default:
      break;
  }
  MOEC_CHECK(false, "codes packed as {} have no blob type", enum_name(packing));
  return BlobDType::u8;
}

}  // namespace

BlobShape blob_shape(const DataLayout::Entry& entry) {
  const auto element_bytes = static_cast<uint64_t>(dtype_bytes(entry.dtype));
  if (!entry.part || is_float(entry.dtype))
    return {blob_dtype(entry.dtype), entry.bytes / element_bytes};
  const auto& [weight, type, form] = entry.source;
  // Counts codes, not bytes: the padding bits in the blob's record follow from the number of
  // elements.
  const Dims dims = entry.part->part == WeightPart::codes ? code_dims(weight.encoding, type)
                                                          : block_counts(weight.encoding, type);
  return {blob_dtype(entry.part->packing), static_cast<uint64_t>(*checked_elements(dims))};
}

uint32_t blob_bits(BlobDType dtype) {
  switch (dtype) {
    case BlobDType::f32:
      return 32;
    case BlobDType::f16:
      return 16;
    case BlobDType::u8:
    case BlobDType::i8:
      return 8;
    case BlobDType::i4:
    case BlobDType::u4:
      return 4;
    case BlobDType::u1:
      return 1;
    case BlobDType::u2:
      return 2;
    case BlobDType::u3:
      return 3;
    case BlobDType::u6:
      return 6;
  }
  return 0;
}

Result<BlobWriter> BlobWriter::create(const OutputPath& path, uint32_t blobs, uint64_t file_bytes,
                                      bool sha256) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create(path, file_bytes, sha256));
  Head head{};
  put<uint32_t>(head, 0, blobs);
  // The version of the format.
  put<uint32_t>(head, 4, 2);
  MOEC_TRY(file.write(head));
  return BlobWriter(std::move(file));
}

Status BlobWriter::begin(BlobDType dtype, uint64_t elements) {
  MOEC_TRY(file_.pad_to(round_up(file_.bytes())));
  const uint64_t bits = elements * blob_bits(dtype);
  const uint64_t bytes = (bits + 7) / 8;
  Head head{};
  put<uint32_t>(head, 0, 0xDEADBEEF);
  put<uint32_t>(head, 4, static_cast<uint32_t>(dtype));
  put<uint64_t>(head, 8, bytes);
  // The offset of the data, which directly follow the record.
  put<uint64_t>(head, 16, file_.bytes() + kHeadBytes);
  // Readers need the padding bits to recover the number of elements of types below 8 bits.
  put<uint64_t>(head, 24, 8 * bytes - bits);
  return file_.write(head);
}

Status BlobWriter::publish() {
  MOEC_TRY(file_.close());
  return file_.publish();
}

Result<EmittedFile> write_blobs(const DataLayout& layout, const WeightReader& weights,
                                const EmitOptions& options, const OutputPath& path,
                                EmitReport& report) {
  const auto count = static_cast<uint32_t>(layout.entries().size());
  MOEC_ASSIGN(BlobWriter blobs,
              BlobWriter::create(path, count, layout.file_bytes(), options.sha256));
  auto begin = [&](const DataLayout::Entry& entry) -> Status {
    const BlobShape shape = blob_shape(entry);
    // The layout may align data to more than 64 bytes, so there can be a gap before the record.
    MOEC_TRY(blobs.file().pad_to(entry.offset - kHeadBytes));
    return blobs.begin(shape.dtype, shape.elements);
  };
  MOEC_TRY(write_weights(layout, weights, options, begin, blobs.file(), report));
  MOEC_TRY(blobs.publish());
  return EmittedFile{{}, blobs.file().bytes(), blobs.file().digest(), blobs.file().sha256()};
}

}  // namespace moec
