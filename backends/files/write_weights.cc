#include "backends/files/write_weights.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <unordered_set>

#include "backends/weights/encode/calibrated_encoder.h"
#include "backends/weights/encode/copied_codes.h"
#include "backends/weights/encode/decode_parts.h"
#include "backends/weights/encode/weight_encoder.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

using Entry = DataLayout::Entry;

// What an encoder may hold at a time, besides what the export plans for reading and writing.
constexpr int64_t kBandBytes = int64_t{48} << 20;
// Of a value of a band: the value, its code, and both once more while a block is gathered.
constexpr int64_t kBytesPerValue = 12;

Status check_band(const Entry& entry) {
  const auto& [weight, type, form] = entry.source;
  const int64_t bytes = band_elements(weight.encoding, type) * kBytesPerValue;
  if (bytes <= kBandBytes) return {};
  return fail("encode.over_budget",
              fmt::format("encoding {} as {} takes {} bytes at a time, the limit is {}",
                          to_string(type), to_string(weight.encoding), bytes, kBandBytes),
              "choose a form with groups of fewer rows", {.tensor = entry.name});
}

// Writes one entry after the other.
class EntryWriter {
 public:
  EntryWriter(ViewSeries& views, const EmitOptions& options, OutputFile& file, EmitReport& report)
      : views_(views), options_(options), file_(file), report_(report) {
    for (const EmittedTensor& tensor : report.tensors) reported_.insert(tensor.view);
  }

  Status write(const Entry& entry) {
    if (!entry.literal.empty()) return file_.write(std::as_bytes(std::span(entry.literal)));
    const bool copied = is_copied(entry.source.weight.encoding);
    if (!entry.reads()) return copied ? copy_scales(entry) : write_parameters(entry);
    StreamReport stream;
    MOEC_TRY(copied       ? copy_codes(entry, stream)
             : entry.part ? stream_codes(entry, stream)
                          : stream_values(entry, stream));
    report_.bytes_read += stream.bytes_read;
    return describe(entry, stream);
  }

 private:
  Status put(std::span<const std::byte> bytes) {
    MOEC_TRY(file_.write(bytes));
    return options_.on_progress ? options_.on_progress(bytes.size()) : Status();
  }

  Status stream_values(const Entry& entry, StreamReport& stream) {
    return views_.next(
        [&](std::span<const std::byte> tile) -> Status {
          if (options_.on_weight) options_.on_weight(entry.key, file_.bytes() - entry.offset, tile);
          return put(tile);
        },
        stream);
  }

  // The values are read for the callback; the file gets the codes that they are decoded from.
  Status copy_codes(const Entry& entry, StreamReport& stream) {
    const auto& [weight, type, form] = entry.source;
    uint64_t decoded = 0;
    MOEC_TRY(views_.next(
        [&](std::span<const std::byte> tile) -> Status {
          if (options_.on_weight) options_.on_weight(entry.key, decoded, tile);
          decoded += tile.size();
          return {};
        },
        stream));
    CopiedCodes codes(std::get<AffineEncoding>(weight.encoding), type, form);
    StreamReport again;
    const TileSink sink = [this](std::span<const std::byte> bytes) { return put(bytes); };
    MOEC_TRY(
        views_.next([&](std::span<const std::byte> tile) { return codes.add(tile, sink); }, again));
    stream.bytes_read += again.bytes_read;
    return {};
  }

  Status copy_scales(const Entry& entry) {
    std::vector<std::byte> scales;
    StreamReport stream;
    MOEC_TRY(views_.next(
        [&](std::span<const std::byte> tile) -> Status {
          scales.insert(scales.end(), tile.begin(), tile.end());
          return {};
        },
        stream));
    report_.bytes_read += stream.bytes_read;
    if (is_new_) report_.weight_bytes += entry.bytes;
    const auto bytes = copied_scales(scales, entry.dtype);
    return bytes ? put(*bytes) : fail(with_tensor(bytes.error(), entry.name));
  }

  Status stream_codes(const Entry& entry, StreamReport& stream) {
    calibrated_.reset();
    if (options_.inputs_of) {
      MOEC_ASSIGN(const auto inputs,
                  options_.inputs_of(entry.source.weight.view, entry.source.type));
      if (inputs) return encode_whole(entry, *inputs, stream);
    }
    encoder_.emplace(entry.source.weight.encoding, entry.source.type, entry.source.form);
    uint64_t decoded = 0;
    EncodedSink sink{[this](std::span<const std::byte> codes) { return put(codes); }, {}};
    if (options_.on_weight)
      sink.values = [&](std::span<const std::byte> values) -> Status {
        options_.on_weight(entry.key, decoded, values);
        decoded += values.size();
        return {};
      };
    const Status streamed = views_.next(
        [&](std::span<const std::byte> tile) { return encoder_->add(tile, sink); }, stream);
    return streamed ? streamed : fail(with_tensor(streamed.error(), entry.name));
  }

  // Error feedback needs all values of a weight at a time.
  Status encode_whole(const Entry& entry, const WeightInputs& inputs, StreamReport& stream) {
    const auto& [weight, type, form] = entry.source;
    std::vector<std::byte> values;
    values.reserve(static_cast<size_t>(type.bytes()));
    MOEC_TRY(views_.next(
        [&](std::span<const std::byte> tile) -> Status {
          values.insert(values.end(), tile.begin(), tile.end());
          return {};
        },
        stream));
    calibrated_ =
        encode_calibrated(weight.encoding, type, values, {inputs.hessians, inputs.axis}, form);
    if (!*calibrated_) return fail(with_tensor(calibrated_->error(), entry.name));
    const auto& parts = (*calibrated_)->parts;
    if (options_.on_weight)
      options_.on_weight(entry.key, 0, decode_parts(weight.encoding, type, parts, form));
    return put(parts.front());
  }

  // The bytes of a part, after the codes.
  std::span<const std::byte> parameters(const Entry& entry) const {
    if (!calibrated_) return encoder_->parameters(entry.part->part);
    const auto& [weight, type, form] = entry.source;
    const std::vector<StoredPart> stored = stored_parts(weight.encoding, type, form);
    for (size_t i = 0; i < stored.size(); ++i)
      if (stored[i].part == entry.part->part) return (*calibrated_)->parts[i];
    return {};
  }

  static Diagnostics with_tensor(Diagnostics findings, const std::string& name) {
    for (Diagnostic& finding : findings)
      if (finding.place.tensor.empty()) finding.place.tensor = name;
    return findings;
  }

  Status write_parameters(const Entry& entry) {
    MOEC_CHECK(encoder_ || calibrated_, "the parameters of {} come before its codes", entry.key);
    if (is_new_) report_.weight_bytes += entry.bytes;
    return put(parameters(entry));
  }

  // Packages of several widths may hold the same weight once each: it is reported once.
  Status describe(const Entry& entry, const StreamReport& stream) {
    is_new_ = !reported_.contains(entry.key);
    if (!is_new_) return {};
    report_.tensors.push_back(
        {entry.name, entry.key, entry.offset, entry.bytes, stream.overflows, stream.nonfinite});
    report_.weight_bytes += entry.bytes;
    if (!options_.on_written) return {};
    return options_.on_written(entry.source.weight.view, report_.tensors.back());
  }

  ViewSeries& views_;
  const EmitOptions& options_;
  OutputFile& file_;
  EmitReport& report_;
  std::unordered_set<std::string> reported_;
  std::optional<WeightEncoder> encoder_;                // of the last codes
  std::optional<Result<CalibratedWeight>> calibrated_;  // the last weight, if it was calibrated
  bool is_new_ = true;                                  // the last weight
};

}  // namespace

Status check_layout(const DataLayout& layout, const WeightReader& weights, size_t tile_bytes) {
  for (const Entry& entry : layout.entries()) {
    for (const WeightView& view : entry.views()) MOEC_TRY(weights.cost(view, tile_bytes));
    if (!entry.reads()) continue;
    MOEC_ASSIGN(const ViewCost cost, weights.cost(entry.source.weight.view, tile_bytes));
    const auto bytes = static_cast<uint64_t>(entry.source.type.bytes());
    MOEC_CHECK(cost.result_bytes == bytes, "{} delivers {} bytes, its type has {}", entry.key,
               cost.result_bytes, bytes);
    if (entry.part && !is_copied(entry.source.weight.encoding)) MOEC_TRY(check_band(entry));
  }
  return {};
}

Status write_weights(const DataLayout& layout, const WeightReader& weights,
                     const EmitOptions& options, const BeginEntry& begin, OutputFile& file,
                     EmitReport& report) {
  MOEC_ASSIGN(ViewSeries views, weights.series(layout.views(), options.tile_bytes));
  EntryWriter writer(views, options, file, report);
  for (const Entry& entry : layout.entries()) {
    MOEC_TRY(begin(entry));
    MOEC_CHECK(file.bytes() == entry.offset, "{} begins at {}, not {}", entry.key, file.bytes(),
               entry.offset);
    MOEC_TRY(writer.write(entry));
    MOEC_CHECK(file.bytes() == entry.offset + entry.bytes, "{} delivered {} bytes, not {}",
               entry.key, file.bytes() - entry.offset, entry.bytes);
  }
  return {};
}

}  // namespace moec
