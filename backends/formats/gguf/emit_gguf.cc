#include "backends/formats/gguf/emit_gguf.h"

#include <algorithm>
#include <cstring>

#include "backends/formats/gguf/gguf_file.h"
#include "backends/weights/encode/encode_blocks.h"
#include "backends/weights/views/convert.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Collects what a view delivers, in pieces of any size, into whole blocks, and turns these into
// blocks of the file.
class BlockStream {
 public:
  BlockStream(GgufCoding coding, BlockType type)
      : coding_(coding),
        type_(type),
        unit_(coding == GgufCoding::encoded
                  ? kEncodedBlock * sizeof(float)
                  : static_cast<size_t>(block_format(BlockType::mxfp4).bytes)) {}

  // The blocks of the file that are complete with these bytes; valid until the next call.
  std::span<const std::byte> take(std::span<const std::byte> bytes) {
    held_.insert(held_.end(), bytes.begin(), bytes.end());
    const size_t blocks = held_.size() / unit_;
    made_.resize(blocks * static_cast<size_t>(block_format(type_).bytes));
    if (blocks == 0) return made_;
    if (coding_ == GgufCoding::paired_mxfp4) {
      nonfinite_ += count_nan_mxfp4(held_.data(), blocks);
      pair_as_gguf(held_.data(), blocks, made_.data());
    } else {
      values_.resize(blocks * kEncodedBlock);
      std::memcpy(values_.data(), held_.data(), blocks * unit_);
      overflows_ += count_too_large(type_, values_.data(), values_.size());
      encode_blocks(type_, values_.data(), blocks, made_.data());
    }
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(blocks * unit_));
    return made_;
  }

  bool is_whole() const { return held_.empty(); }
  // Elements so far whose values the blocks do not have.
  uint64_t overflows() const { return overflows_; }
  uint64_t nonfinite() const { return nonfinite_; }

 private:
  GgufCoding coding_;
  BlockType type_;
  size_t unit_;  // bytes of a block as the view delivers it
  std::vector<std::byte> held_, made_;
  std::vector<float> values_;
  uint64_t overflows_ = 0, nonfinite_ = 0;
};

class GgufEmitter {
 public:
  GgufEmitter(const GgufPart& part, const EmitOptions& options, GgufFile file)
      : part_(part), options_(options), file_(std::move(file)) {}

  Status write(size_t index, const GgufPayload& payload, ViewSeries& views) {
    StreamReport stream;
    if (!reads(index, payload))
      MOEC_TRY(put(std::as_bytes(std::span(payload.bytes))));
    else if (payload.coding == GgufCoding::stored)
      MOEC_TRY(views.next([&](std::span<const std::byte> tile) { return put(tile); }, stream));
    else
      MOEC_TRY(write_blocks(index, payload.coding, views, stream));
    report_.bytes_read += stream.bytes_read;
    report_.weight_bytes += part_.layout.bytes[index];
    const GgufTensorInfo& info = part_.layout.tensors[index];
    report_.tensors.push_back({info.name, to_string(payload.view), part_.layout.offsets[index],
                               part_.layout.bytes[index], stream.overflows, stream.nonfinite});
    if (!options_.on_written || !reads(index, payload)) return {};
    return options_.on_written(payload.view, report_.tensors.back());
  }

  // Whether the tensor's bytes come from its view: it may have none, or bring them along.
  bool reads(size_t index, const GgufPayload& payload) const {
    return payload.bytes.empty() && part_.layout.bytes[index] > 0;
  }

  Result<EmitReport> finish() && {
    MOEC_ASSIGN(OutputFile file, std::move(file_).finish());
    MOEC_TRY(file.sync());
    MOEC_TRY(file.publish());
    report_.data.push_back({part_.name, file.bytes(), file.digest(), file.sha256()});
    return std::move(report_);
  }

 private:
  Status put(std::span<const std::byte> bytes) {
    MOEC_TRY(file_.write(bytes));
    return options_.on_progress ? options_.on_progress(bytes.size()) : Status();
  }

  Status write_blocks(size_t index, GgufCoding coding, ViewSeries& views, StreamReport& stream) {
    const GgufTensorInfo& info = part_.layout.tensors[index];
    BlockStream blocks(coding, info.type);
    MOEC_TRY(views.next(
        [&](std::span<const std::byte> tile) -> Status {
          if (coding == GgufCoding::encoded &&
              count_nonfinite(DType::f32, tile.data(), tile.size() / sizeof(float)) > 0)
            return fail("encode.nonfinite",
                        "the weight holds NaN or infinite values, which have no code",
                        "download the file again, or keep the group of this weight float",
                        {.tensor = info.name});
          return put(blocks.take(tile));
        },
        stream));
    MOEC_CHECK(blocks.is_whole(), "{} ends inside a block", info.name);
    stream.overflows += blocks.overflows();
    stream.nonfinite += blocks.nonfinite();
    return {};
  }

  const GgufPart& part_;
  const EmitOptions& options_;
  GgufFile file_;
  EmitReport report_;
};

}  // namespace

Result<EmitReport> emit_gguf(const GgufPart& part, std::span<const GgufPayload> payloads,
                             const WeightReader& weights, const EmitOptions& options) {
  MOEC_ASSIGN(GgufFile file,
              GgufFile::create({options.folder, part.name}, part.layout, options.sha256));
  GgufEmitter emitter(part, options, std::move(file));
  std::vector<WeightView> views;
  for (size_t i = 0; i < payloads.size(); ++i)
    if (emitter.reads(i, payloads[i])) views.push_back(payloads[i].view);
  MOEC_ASSIGN(ViewSeries series, weights.series(std::move(views), options.tile_bytes));
  for (size_t i = 0; i < payloads.size(); ++i) MOEC_TRY(emitter.write(i, payloads[i], series));
  return std::move(emitter).finish();
}

}  // namespace moec
