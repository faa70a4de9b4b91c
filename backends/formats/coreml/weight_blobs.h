// Writes weight.bin, Core ML's blob file, format version 2 (coremltools, mlmodel/src/MILBlob/Blob:
// StorageFormat.hpp, BlobDataType.hpp, StorageWriter.cpp). Little-endian.
//
//   file     u32 number of blobs, u32 version 2, zeros up to 64
//   blob     at a multiple of 64: 64 bytes of metadata, then the data; nothing after the last one
//   metadata u32 0xDEADBEEF, u32 element type, u64 bytes of data, u64 offset of the data,
//            u64 padding bits in the last byte (types below 8 bits), zeros up to 64
// A program refers to a blob by the offset of its metadata.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/emit/data_layout.h"
#include "backends/emit/emit.h"
#include "backends/files/output_file.h"

namespace moec {

inline constexpr DataFormat kBlobFormat{.alignment = 64, .file_head = 64, .entry_lead = 64};

enum class BlobDType : uint32_t {
  f16 = 1,
  f32 = 2,
  u8 = 3,
  i8 = 4,
  i4 = 8,
  u1 = 9,
  u2 = 10,
  u4 = 11,
  u3 = 12,
  u6 = 13
};

// Bits per element.
uint32_t blob_bits(BlobDType dtype);

// The element type and the number of elements of an entry's blob.
struct BlobShape {
  BlobDType dtype = BlobDType::f16;
  uint64_t elements = 0;
};
BlobShape blob_shape(const DataLayout::Entry& entry);

class BlobWriter {
 public:
  // Creates the file and writes its header. Errors: those of OutputFile.
  static Result<BlobWriter> create(const OutputPath& path, uint32_t blobs, uint64_t file_bytes,
                                   bool sha256 = false);

  // Starts the next blob. Its complete data must be written before the next call.
  Status begin(BlobDType dtype, uint64_t elements);
  Status write(std::span<const std::byte> bytes) { return file_.write(bytes); }

  // Renames the file to its final name without a flush, because the package is flushed as a whole.
  Status publish();
  OutputFile& file() { return file_; }

 private:
  explicit BlobWriter(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
};

// Writes all entries of a layout in kBlobFormat. The entries must be f16, f32 or codes. Fills in
// `report` like write_weights(). The path of the result is empty.
Result<EmittedFile> write_blobs(const DataLayout& layout, const WeightReader& weights,
                                const EmitOptions& options, const OutputPath& path,
                                EmitReport& report);

}  // namespace moec
