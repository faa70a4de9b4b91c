#include "backends/formats/coreml/blob_file.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "ir/base/regular_file.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

// The layout of MILBlob's StorageFormat in coremltools: a header of 64 bytes, then for each blob a
// record of 64 bytes and its data, each at a multiple of 64 bytes. All numbers are little-endian.
constexpr uint64_t kAlignment = 64;
constexpr uint32_t kVersion = 2;
constexpr uint32_t kSentinel = 0xDEADBEEF;
// Every element becomes a double, so the limit bounds the values of a constant to 128 MiB.
constexpr int64_t kMaxConstants = int64_t{1} << 24;

// Header and Lead have the layout of the file, so read_record() copies them from its bytes.
struct Header {
  uint32_t blobs, version;
  uint64_t reserved[7];
};
struct Lead {  // the record before each blob's data
  uint32_t sentinel, dtype;
  uint64_t bytes, offset, padding_bits, reserved[4];
};
static_assert(sizeof(Header) == kAlignment && sizeof(Lead) == kAlignment);

tl::unexpected<Diagnostics> fail_blob(std::string cause, const std::string& name) {
  return fail("coreml.blob", std::move(cause), "export the model again", {.tensor = name});
}

// The format's number for an element type. The numbers are those of BlobDType in weight_blobs.h,
// which has no i32. Returns 0, which locate_stated() rejects, for types that the reader does not
// accept.
uint32_t blob_dtype(DType dtype) {
  constexpr uint32_t kFloat16 = 1, kFloat32 = 2, kInt32 = 14, kNone = 0;
  if (dtype == DType::f16) return kFloat16;
  if (dtype == DType::f32) return kFloat32;
  return dtype == DType::i32 ? kInt32 : kNone;
}

bool read_at(const std::string& path, uint64_t offset, char* into, uint64_t bytes) {
  const auto file = RegularFile::open(path);
  return file && file->read_into(offset, {into, bytes});
}

template <class Record>
Result<Record> read_record(const std::string& path, uint64_t offset, const std::string& name) {
  std::array<char, sizeof(Record)> bytes{};
  if (!read_at(path, offset, bytes.data(), bytes.size()))
    return fail_blob(fmt::format("cannot read {} at byte {}", path, offset), name);
  Record record;
  std::memcpy(&record, bytes.data(), sizeof record);
  return record;
}

// locate() accepts only f16, f32 and i32.
double element(DType dtype, const char* bytes) {
  if (dtype == DType::f16) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    return f32_from_f16(bits);
  }
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  int32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

BlobFile::BlobFile(const std::string& folder)
    : path_((fs::path(folder) / "weights" / "weight.bin").string()) {}

Status BlobFile::open(const std::string& name) {
  std::error_code error;
  // A symbolic link is refused, because it could lead out of the package.
  if (!fs::is_regular_file(fs::symlink_status(path_, error)))
    return fail_blob(fmt::format("{} is missing or is not a regular file", path_), name);
  const uint64_t bytes = fs::file_size(path_, error);
  if (error || bytes < sizeof(Header))
    return fail_blob(fmt::format("{} is shorter than its 64-byte header", path_), name);
  MOEC_ASSIGN(const Header header, read_record<Header>(path_, 0, name));
  if (header.version != kVersion)
    return fail_blob(fmt::format("{} has version {}, expected {}", path_, header.version, kVersion),
                     name);
  // Set after all checks, because locate_stated() opens the file again while bytes_ is 0.
  bytes_ = bytes;
  return {};
}

Result<uint64_t> BlobFile::locate(const mlmodel::Value& value, const Type& type,
                                  const std::string& name) {
  return locate_stated(value, {blob_dtype(type.dtype), static_cast<uint64_t>(type.bytes()), 0},
                       name);
}

Result<uint64_t> BlobFile::locate(const mlmodel::Value& value, const Packed& packed, uint64_t bits,
                                  const std::string& name) {
  // Codes are packed without gaps, so only the last byte can have padding bits.
  const uint64_t bytes = (bits + 7) / 8;
  return locate_stated(value, {packed.dtype, bytes, 8 * bytes - bits}, name);
}

Result<uint64_t> BlobFile::locate_stated(const mlmodel::Value& value, const Stated& wanted,
                                         const std::string& name) {
  const auto& stored = value.blobfilevalue();
  if (stored.filename() != kBlobFileName)
    return fail_blob(fmt::format("the weights must be in {}", kBlobFileName), name);
  if (bytes_ == 0) MOEC_TRY(open(name));
  const uint64_t at = stored.offset();
  // open() has checked that bytes_ is at least 64, so the subtraction cannot wrap around.
  if (at < sizeof(Header) || at % kAlignment != 0 || at > bytes_ - sizeof(Lead))
    return fail_blob(fmt::format("{} is not a valid blob offset in a file of {} bytes", at, bytes_),
                     name);
  MOEC_ASSIGN(const Lead lead, read_record<Lead>(path_, at, name));
  const uint64_t bytes = wanted.bytes;
  const uint64_t data = at + sizeof(Lead);
  if (lead.sentinel != kSentinel || lead.offset != data || lead.padding_bits != wanted.padding_bits)
    return fail_blob(fmt::format("no blob begins at byte {} of {}", at, path_), name);
  if (lead.dtype != wanted.dtype || lead.dtype == 0 || lead.bytes != bytes)
    return fail_blob(
        fmt::format("the blob at byte {} has element type {} and {} bytes, expected {} "
                    "and {}",
                    at, lead.dtype, lead.bytes, wanted.dtype, bytes),
        name);
  // `data` is at most bytes_, by the check of `at`. A sum of `data` and `bytes` could overflow.
  if (bytes > bytes_ - data)
    return fail_blob(fmt::format("bytes [{}, {} + {}) exceed {}, which has {} bytes", data, data,
                                 bytes, path_, bytes_),
                     name);
  return data;
}

Result<std::vector<double>> BlobFile::values(uint64_t offset, const Type& type,
                                             const std::string& name) const {
  if (type.elements() > kMaxConstants)
    return fail("coreml.value",
                fmt::format("a constant has {} elements, the limit is 2^24", type.elements()),
                "remove its name from the constants in the metadata", {.tensor = name});
  std::string bytes(static_cast<size_t>(type.bytes()), '\0');
  if (!read_at(path_, offset, bytes.data(), bytes.size()))
    return fail_blob(fmt::format("cannot read {} at byte {}", path_, offset), name);
  const auto size = static_cast<size_t>(dtype_bytes(type.dtype));
  std::vector<double> values;
  values.reserve(static_cast<size_t>(type.elements()));
  for (size_t at = 0; at < bytes.size(); at += size)
    values.push_back(element(type.dtype, bytes.data() + at));
  return values;
}

}  // namespace moec
