// Writes the files of a model, tensor by tensor, from views of its checkpoint.
#pragma once

#include <span>
#include <string>

#include "backends/emit/emit.h"
#include "backends/formats/gguf/gguf_layout.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/weight_view.h"

namespace moec {

// How the bytes of a tensor are made of what its view delivers.
//   stored        they are what it delivers: elements of the tensor's type, or whole blocks as u8
//   encoded       it delivers f32, which are encoded in blocks of the tensor's type
//   paired_mxfp4  it delivers blocks of MXFP4 as checkpoints have them, as u8
enum class GgufCoding : uint8_t { stored, encoded, paired_mxfp4 };

struct GgufPayload {
  GgufCoding coding = GgufCoding::stored;
  WeightView view;    // unless `bytes` are given
  std::string bytes;  // the tensor's own
};

// Writes the file options.folder/part.name; `payloads` are those of part.layout.tensors, in that
// order. Of the options it takes folder, tile_bytes, sha256, on_progress and on_written. The report
// has the file in `data` and one entry for each tensor. Errors: encode.nonfinite with the tensor's
// name, those of WeightReader, OutputFile and of the callbacks.
Result<EmitReport> emit_gguf(const GgufPart& part, std::span<const GgufPayload> payloads,
                             const WeightReader& weights, const EmitOptions& options);

}  // namespace moec
