#include "backends/formats/gguf/emit_gguf.h"

#include <algorithm>
#include <cstring>

#include "backends/formats/gguf/gguf_file.h"
#include "backends/weights/encode/encode_blocks.h"
#include "backends/weights/views/convert.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Collects a view's bytes, which arrive in pieces of any size, into whole blocks and converts them
// to the file's block type.
class BlockStream {
 public:
  BlockStream(GgufCoding coding, BlockType type)
      : coding_(coding),
        type_(type),
        elements_(static_cast<size_t>(block_format(type).elements)),
        unit_(coding == GgufCoding::encoded
                  ? elements_ * sizeof(float)
                  : static_cast<size_t>(block_format(BlockType::mxfp4).bytes)) {}

  // Returns the file blocks that `bytes` complete; valid until the next call. A tile of the view
  // may end inside a block, so held_ keeps an incomplete block for the next call.
  std::span<const std::byte> take(std::span<const std::byte> bytes) {
    held_.insert(held_.end(), bytes.begin(), bytes.end());
    const size_t blocks = held_.size() / unit_;
    made_.resize(blocks * static_cast<size_t>(block_format(type_).bytes));
    if (blocks == 0) return made_;
    if (coding_ == GgufCoding::paired_mxfp4) {
      // MXFP4 blocks are rearranged, not encoded. A NaN is counted but is not an error, because the
      // checkpoint contains it.
      nonfinite_ += count_nan_mxfp4(held_.data(), blocks);
      pair_as_gguf(held_.data(), blocks, made_.data());
    } else {
      values_.resize(blocks * elements_);
      std::memcpy(values_.data(), held_.data(), blocks * unit_);
      // encode_blocks() does not report overflows, so they are counted separately.
      overflows_ += count_too_large(type_, values_.data(), values_.size());
      encode_blocks(type_, values_.data(), blocks, made_.data());
    }
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(blocks * unit_));
    return made_;
  }

  bool is_whole() const { return held_.empty(); }
  // Numbers of elements so far that overflowed in the block type, and that were NaN or infinite.
  uint64_t overflows() const { return overflows_; }
  uint64_t nonfinite() const { return nonfinite_; }

 private:
  GgufCoding coding_;
  BlockType type_;
  size_t elements_;  // per block
  size_t unit_;      // bytes per block in the view
  std::vector<std::byte> held_, made_;
  std::vector<float> values_;
  uint64_t overflows_ = 0, nonfinite_ = 0;
};

class GgufEmitter {
 public:
  GgufEmitter(const GgufPart& part, const EmitOptions& options, GgufFile file)
      : part_(part), options_(options), file_(std::move(file)) {}

  // Writes one tensor: literal bytes, the bytes of its view, or converted blocks. `views` must
  // deliver the view of this tensor next.
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

  // True if the tensor's bytes come from its view: the tensor is not empty, but `payload.bytes` is.
  // An empty tensor has no view in the series.
  bool reads(size_t index, const GgufPayload& payload) const {
    return payload.bytes.empty() && part_.layout.bytes[index] > 0;
  }

  // Flushes the file before the rename, so that a file under its final name is complete.
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
          // A NaN or an infinity would make the scale of its block useless, so all values of the
          // block would be lost.
          if (coding == GgufCoding::encoded &&
              count_nonfinite(DType::f32, tile.data(), tile.size() / sizeof(float)) > 0)
            return fail("encode.nonfinite",
                        "the weight contains NaN or infinite values, which cannot be encoded",
                        "download the file again, or keep the group of this weight as float",
                        {.tensor = info.name});
          return put(blocks.take(tile));
        },
        stream));
    // gguf_tensor_bytes() has checked that rows consist of whole blocks.
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
  // One series delivers all views, so that its maker knows their order in advance
  // (WeightReader::with_series()).
  std::vector<WeightView> views;
  for (size_t i = 0; i < payloads.size(); ++i)
    if (emitter.reads(i, payloads[i])) views.push_back(payloads[i].view);
  MOEC_ASSIGN(ViewSeries series, weights.series(std::move(views), options.tile_bytes));
  for (size_t i = 0; i < payloads.size(); ++i) MOEC_TRY(emitter.write(i, payloads[i], series));
  return std::move(emitter).finish();
}

}  // namespace moec
