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
constexpr int64_t kMostConstants = int64_t{1} << 24;

struct Header {
  uint32_t blobs, version;
  uint64_t reserved[7];
};
struct Lead {  // before each blob's data
  uint32_t sentinel, dtype;
  uint64_t bytes, offset, padding_bits, reserved[4];
};
static_assert(sizeof(Header) == kAlignment && sizeof(Lead) == kAlignment);

tl::unexpected<Diagnostics> fail_blob(std::string cause, const std::string& name) {
  return fail("coreml.blob", std::move(cause), "export the model again", {.tensor = name});
}

// The format's number for an element type.
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
    return fail_blob(fmt::format("{} cannot be read at byte {}", path, offset), name);
  Record record;
  std::memcpy(&record, bytes.data(), sizeof record);
  return record;
}

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
  if (!fs::is_regular_file(fs::symlink_status(path_, error)))
    return fail_blob(fmt::format("{} is missing or is not a regular file", path_), name);
  const uint64_t bytes = fs::file_size(path_, error);
  if (error || bytes < sizeof(Header))
    return fail_blob(fmt::format("{} holds no header", path_), name);
  MOEC_ASSIGN(const Header header, read_record<Header>(path_, 0, name));
  if (header.version != kVersion)
    return fail_blob(
        fmt::format("{} has version {}, only {} is read", path_, header.version, kVersion), name);
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
  const uint64_t bytes = (bits + 7) / 8;
  return locate_stated(value, {packed.dtype, bytes, 8 * bytes - bits}, name);
}

Result<uint64_t> BlobFile::locate_stated(const mlmodel::Value& value, const Stated& wanted,
                                         const std::string& name) {
  const auto& stored = value.blobfilevalue();
  if (stored.filename() != kBlobFileName)
    return fail_blob(fmt::format("only {} is read as a file of weights", kBlobFileName), name);
  if (bytes_ == 0) MOEC_TRY(open(name));
  const uint64_t at = stored.offset();
  if (at < sizeof(Header) || at % kAlignment != 0 || at > bytes_ - sizeof(Lead))
    return fail_blob(fmt::format("byte {} of {} bytes is not a valid offset of a blob", at, bytes_),
                     name);
  MOEC_ASSIGN(const Lead lead, read_record<Lead>(path_, at, name));
  const uint64_t bytes = wanted.bytes;
  const uint64_t data = at + sizeof(Lead);
  if (lead.sentinel != kSentinel || lead.offset != data || lead.padding_bits != wanted.padding_bits)
    return fail_blob(fmt::format("no blob begins at byte {} of {}", at, path_), name);
  if (lead.dtype != wanted.dtype || lead.dtype == 0 || lead.bytes != bytes)
    return fail_blob(fmt::format("the blob at byte {} has element type {} and {} bytes, not {} and "
                                 "{}",
                                 at, lead.dtype, lead.bytes, wanted.dtype, bytes),
                     name);
  if (bytes > bytes_ - data)
    return fail_blob(fmt::format("bytes [{}, {} + {}) pass the end of {}, which has {}", data, data,
                                 bytes, path_, bytes_),
                     name);
  return data;
}

Result<std::vector<double>> BlobFile::values(uint64_t offset, const Type& type,
                                             const std::string& name) const {
  if (type.elements() > kMostConstants)
    return fail(
        "coreml.value",
        fmt::format("a constant of {} elements is too large: at most 2^24", type.elements()),
        "leave it out of the metadata's constants", {.tensor = name});
  std::string bytes(static_cast<size_t>(type.bytes()), '\0');
  if (!read_at(path_, offset, bytes.data(), bytes.size()))
    return fail_blob(fmt::format("{} cannot be read at byte {}", path_, offset), name);
  const auto size = static_cast<size_t>(dtype_bytes(type.dtype));
  std::vector<double> values;
  values.reserve(static_cast<size_t>(type.elements()));
  for (size_t at = 0; at < bytes.size(); at += size)
    values.push_back(element(type.dtype, bytes.data() + at));
  return values;
}

}  // namespace moec
