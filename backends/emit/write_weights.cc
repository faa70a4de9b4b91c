#include "backends/emit/write_weights.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <variant>

#include "backends/emit/element_bytes.h"
#include "backends/files/digest.h"
#include "backends/weights/encode/calibrated_encoder.h"
#include "backends/weights/encode/copied_codes.h"
#include "backends/weights/encode/weight_encoder.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

using Entry = DataLayout::Entry;

// Maximum buffer of an encoder. The export's memory plan does not count it.
constexpr int64_t kBandBytes = int64_t{48} << 20;
// Bytes per value of a band: the value and its code, plus a second copy of both while gathering a
// block.
constexpr int64_t kBytesPerValue = 12;

Status check_band(const Entry& entry) {
  const auto& [weight, type, form] = entry.source;
  const int64_t bytes = band_elements(weight.encoding, type) * kBytesPerValue;
  if (bytes <= kBandBytes) return {};
  return fail("encode.over_budget",
              fmt::format("encoding {} as {} needs a buffer of {} bytes, the limit is {}",
                          to_string(type), to_string(weight.encoding), bytes, kBandBytes),
              "choose a form with groups of fewer rows", {.tensor = entry.name});
}

// Writes the entries of a layout in order.
class EntryWriter {
 public:
  EntryWriter(ViewSeries& views, const EmitOptions& options, OutputFile& file, EmitReport& report)
      : views_(views), options_(options), file_(file), report_(report) {
    for (const EmittedTensor& tensor : report.tensors) reported_.insert(tensor.view);
  }

  Status write(const Entry& entry) {
    if (!entry.literal.empty()) return file_.write(std::as_bytes(std::span(entry.literal)));
    written_ = Digest();
    MOEC_TRY(write_weight(entry));
    if (is_new_) report_.ranges.push_back({entry.key, range_of(entry)});
    return {};
  }

 private:
  Status write_weight(const Entry& entry) {
    const bool copied = is_copied(entry.source.weight.encoding);
    if (entry.precedes_codes) return scan_scales(entry);
    if (!entry.reads()) return copied ? copy_parameters(entry) : write_parameters(entry);
    StreamReport stream;
    MOEC_TRY(copied       ? copy_codes(entry, stream)
             : entry.part ? stream_codes(entry, stream)
                          : stream_values(entry, stream));
    report_.bytes_read += stream.bytes_read;
    return describe(entry, stream);
  }

  WeightRange range_of(const Entry& entry) const {
    return {entry.part ? stored_as(entry.part->part) : StoredAs::values,
            std::ssize(report_.data),
            static_cast<int64_t>(entry.offset),
            static_cast<int64_t>(entry.bytes),
            static_cast<int64_t>(entry.alignment),
            written_.hex()};
  }

  static StoredAs stored_as(WeightPart part) {
    switch (part) {
      case WeightPart::codes:
        return StoredAs::codes;
      case WeightPart::scales:
        return StoredAs::scales;
      case WeightPart::zeros:
        return StoredAs::zeros;
      case WeightPart::table:
        return StoredAs::table;
    }
    return StoredAs::values;
  }

  Status put(std::span<const std::byte> bytes) {
    written_.update(bytes);
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

  // Decodes the values for the on_weight callback only; the file gets the stored codes unchanged.
  Status copy_codes(const Entry& entry, StreamReport& stream) {
    const auto& [weight, type, form] = entry.source;
    uint64_t decoded = 0;
    // `views_` delivers the decoded values first, then the stored codes
    // (DataLayout::Entry::views()).
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

  Status copy_parameters(const Entry& entry) {
    std::vector<std::byte> parameters;
    StreamReport stream;
    MOEC_TRY(views_.next(
        [&](std::span<const std::byte> tile) -> Status {
          parameters.insert(parameters.end(), tile.begin(), tile.end());
          return {};
        },
        stream));
    report_.bytes_read += stream.bytes_read;
    if (is_new_) report_.weight_bytes += entry.bytes;
    const auto bytes = copied_parameters(entry.part->part, parameters, entry.dtype);
    return bytes ? put(*bytes) : fail(with_tensor(bytes.error(), entry.name));
  }

  // Encodes the weight only for its scales. The weight is described with its codes.
  Status scan_scales(const Entry& entry) {
    is_new_ = !reported_.contains(entry.key);
    StreamReport stream;
    MOEC_TRY(encode(entry, {[](std::span<const std::byte>) { return Status(); }, {}}, stream));
    report_.bytes_read += stream.bytes_read;
    return write_parameters(entry);
  }

  Status stream_codes(const Entry& entry, StreamReport& stream) {
    uint64_t decoded = 0;
    EncodedSink sink{[this](std::span<const std::byte> codes) { return put(codes); }, {}};
    if (options_.on_weight)
      sink.values = [&](std::span<const std::byte> values) -> Status {
        options_.on_weight(entry.key, decoded, values);
        decoded += values.size();
        return {};
      };
    return encode(entry, sink, stream);
  }

  Status encode(const Entry& entry, const EncodedSink& sink, StreamReport& stream) {
    const auto& [weight, type, form] = entry.source;
    // Releases the previous encoder and metric before inputs_of() reads the next metric, so that
    // the memory of two weights is never held at once.
    encoder_.emplace<std::monostate>();
    inputs_.reset();
    if (options_.inputs_of) {
      MOEC_ASSIGN(inputs_, options_.inputs_of(weight, type));
    }
    if (!inputs_)
      return stream_through(encoder_.emplace<WeightEncoder>(weight.encoding, type, form), entry,
                            sink, stream);
    auto calibrated = CalibratedEncoder::create(weight.encoding, type, {*inputs_, 1}, form);
    if (!calibrated) return fail(with_tensor(calibrated.error(), entry.name));
    return stream_through(encoder_.emplace<CalibratedEncoder>(std::move(*calibrated)), entry, sink,
                          stream);
  }

  template <class Encoder>
  Status stream_through(Encoder& encoder, const Entry& entry, const EncodedSink& sink,
                        StreamReport& stream) {
    const Status streamed = views_.next(
        [&](std::span<const std::byte> tile) { return encoder.add(tile, sink); }, stream);
    // The encoder does not know tensor names, so with_tensor() adds the name to its errors.
    return streamed ? streamed : fail(with_tensor(streamed.error(), entry.name));
  }

  // The bytes of a part. Valid after the codes have been encoded.
  std::span<const std::byte> parameters(WeightPart part) const {
    if (const auto* calibrated = std::get_if<CalibratedEncoder>(&encoder_))
      return calibrated->parameters(part);
    return std::get<WeightEncoder>(encoder_).parameters(part);
  }

  static Diagnostics with_tensor(Diagnostics findings, const std::string& name) {
    for (Diagnostic& finding : findings)
      if (finding.place.tensor.empty()) finding.place.tensor = name;
    return findings;
  }

  Status write_parameters(const Entry& entry) {
    MOEC_CHECK(encoder_.index() != 0, "the parameters of {} precede its codes", entry.key);
    if (is_new_) report_.weight_bytes += entry.bytes;
    const auto bytes = parameters(entry.part->part);
    if (entry.dtype == entry.part->type.dtype) return put(bytes);
    MOEC_ASSIGN(const std::vector<std::byte> narrow, narrowed(entry, bytes));
    return put(narrow);
  }

  // The scales of an entry, whose type differs from that of the weight.
  static Result<std::vector<std::byte>> narrowed(const Entry& entry,
                                                 std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::vector<double> scales = element_values(entry.part->type.dtype, text);
    const std::string stored = element_bytes(entry.dtype, scales);
    const auto words = std::as_bytes(std::span(stored));
    if (element_values(entry.dtype, stored) == scales)
      return std::vector<std::byte>(words.begin(), words.end());
    return fail("encode.scale",
                fmt::format("a scale is not exact in {}, in which the format stores scales",
                            dtype_name(entry.dtype)),
                "keep this weight float: add NAME=float to --weights", {.tensor = entry.name});
  }

  // Several packages may contain the same weight; it is reported once.
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
  InputMetrics inputs_;  // calibration of the last codes; null if not calibrated
  std::variant<std::monostate, WeightEncoder, CalibratedEncoder> encoder_;  // of the last codes
  bool is_new_ = true;                                                      // the last weight
  Digest written_;                                                          // of the last entry
};

}  // namespace

Status check_layout(const DataLayout& layout, const WeightReader& weights, size_t tile_bytes) {
  for (const Entry& entry : layout.entries()) {
    // cost() fails if a view exceeds the memory budget. The error then occurs before the first byte
    // is written.
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
    // Graphs contain the offsets of the layout, so a different position would corrupt the weights
    // silently.
    MOEC_CHECK(file.bytes() == entry.offset, "{} begins at {}, not {}", entry.key, file.bytes(),
               entry.offset);
    MOEC_TRY(writer.write(entry));
    MOEC_CHECK(file.bytes() == entry.offset + entry.bytes, "{} delivered {} bytes, not {}",
               entry.key, file.bytes() - entry.offset, entry.bytes);
  }
  return {};
}

}  // namespace moec
