// Reads arbitrary bytes as the weight.bin of a Core ML package. At each possible blob offset,
// requests a blob of the type that the header there describes, and one of eight halves. A blob that
// is found must lie in the file and be readable.
#include <mlmodel.pb.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "backends/formats/coreml/blob_file.h"
#include "ir/base/invariant.h"
#include "tests/fuzz/scratch_folder.h"

namespace {

constexpr size_t kRecord = 64;  // size of the file header and of each blob header
constexpr int kMaxPlaces = 16;

uint64_t number_at(const uint8_t* bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

// Returns the type that a blob header states: a sentinel, the element type, and the size in bytes.
moec::Type told_type(const uint8_t* lead) {
  const uint64_t number = number_at(lead) >> 32;
  const moec::DType dtype = number == 1   ? moec::DType::f16
                            : number == 2 ? moec::DType::f32
                                          : moec::DType::i32;
  const auto size = static_cast<uint64_t>(moec::dtype_bytes(dtype));
  const moec::Dims dims = {static_cast<int64_t>(number_at(lead + 8) / size)};
  return {.dtype = dtype, .dims = moec::checked_elements(dims) ? dims : moec::Dims{1}};
}

bool check_blob(moec::BlobFile& blobs, uint64_t place, const moec::Type& type) {
  moec::mlmodel::Value value;
  value.mutable_blobfilevalue()->set_filename(std::string(moec::kBlobFileName));
  value.mutable_blobfilevalue()->set_offset(place);
  const auto data = blobs.locate(value, type, "w");
  if (!data) return false;
  const auto bytes = static_cast<uint64_t>(type.bytes());
  MOEC_CHECK(*data % kRecord == 0 && *data <= blobs.bytes() && bytes <= blobs.bytes() - *data,
             "a found blob exceeds the file");
  const auto values = blobs.values(*data, type, "w");
  MOEC_CHECK(values && static_cast<int64_t>(values->size()) == type.elements(),
             "a blob in the file cannot be read");
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const moec::ScratchFolder scratch("blob_fuzz", "weights");
  scratch.write("weights/weight.bin", {reinterpret_cast<const char*>(data), size});
  moec::BlobFile blobs(scratch.path().string());
  uint64_t place = kRecord;
  for (int count = 0; count < kMaxPlaces; ++count) {
    std::array<uint8_t, kRecord> lead{};  // zeros past the end of the file
    if (place < size)
      std::copy_n(data + place, std::min<uint64_t>(kRecord, size - place), lead.begin());
    const moec::Type type = told_type(lead.data());
    check_blob(blobs, place, {.dtype = moec::DType::f16, .dims = {8}});
    const bool located = check_blob(blobs, place, type);
    if (place >= size) break;
    const auto payload = located ? static_cast<uint64_t>(type.bytes()) : 0;
    place += kRecord + (payload + kRecord - 1) / kRecord * kRecord;
  }
  return 0;
}
