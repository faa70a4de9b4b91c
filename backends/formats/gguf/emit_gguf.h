// Writes GGUF files tensor by tensor from views of a checkpoint.
#pragma once

#include <span>
#include <string>

#include "backends/emit/emit.h"
#include "backends/formats/gguf/gguf_layout.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/weight_view.h"

namespace moec {

// The conversion from the bytes of a tensor's view to the tensor's bytes in the file.
//   stored        none: the view delivers elements of the tensor's type, or whole blocks as u8
//   encoded       the view delivers f32, which are encoded in blocks of the tensor's type
//   paired_mxfp4  the view delivers MXFP4 blocks in the checkpoint's layout, as u8
enum class GgufCoding : uint8_t { stored, encoded, paired_mxfp4 };

struct GgufPayload {
  GgufCoding coding = GgufCoding::stored;
  WeightView view;    // unused if `bytes` is not empty
  std::string bytes;  // the tensor's contents
};

// Writes the file options.folder/part.name. `payloads` has one entry per tensor of
// part.layout.tensors, in that order. Uses only these options: folder, tile_bytes, sha256,
// on_progress and on_written. The report lists the file in `data` and one entry per tensor. Errors:
// encode.nonfinite with the tensor's name, those of WeightReader, OutputFile and the callbacks.
Result<EmitReport> emit_gguf(const GgufPart& part, std::span<const GgufPayload> payloads,
                             const WeightReader& weights, const EmitOptions& options);

}  // namespace moec
