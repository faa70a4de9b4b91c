#include "backends/files/write_weights.h"

#include <string>
#include <unordered_set>

#include "ir/base/invariant.h"

namespace moec {
namespace {

std::unordered_set<std::string> views_of(const EmitReport& report) {
  std::unordered_set<std::string> views;
  for (const EmittedTensor& tensor : report.tensors) views.insert(tensor.view);
  return views;
}

}  // namespace

Status check_layout(const DataLayout& layout, const WeightReader& weights, size_t tile_bytes) {
  for (const auto& entry : layout.entries()) {
    if (!entry.literal.empty()) continue;
    MOEC_ASSIGN(const ViewCost cost, weights.cost(entry.view, tile_bytes));
    MOEC_CHECK(cost.result_bytes == entry.bytes, "{} delivers {} bytes, its type has {}", entry.key,
               cost.result_bytes, entry.bytes);
  }
  return {};
}

Status write_weights(const DataLayout& layout, const WeightReader& weights,
                     const EmitOptions& options, const BeginEntry& begin, OutputFile& file,
                     EmitReport& report) {
  // Packages of several widths may hold the same view once each: it is reported once.
  const std::unordered_set<std::string> reported = views_of(report);
  const DataLayout::Entry* writing = nullptr;
  auto sink = [&](std::span<const std::byte> tile) -> Status {
    if (options.on_weight) options.on_weight(writing->key, file.bytes() - writing->offset, tile);
    MOEC_TRY(file.write(tile));
    return options.on_progress ? options.on_progress(tile.size()) : Status();
  };
  MOEC_ASSIGN(ViewSeries views, weights.series(layout.views(), options.tile_bytes));
  for (const auto& entry : layout.entries()) {
    writing = &entry;
    MOEC_TRY(begin(entry));
    MOEC_CHECK(file.bytes() == entry.offset, "{} begins at {}, not {}", entry.key, file.bytes(),
               entry.offset);
    if (!entry.literal.empty()) {
      MOEC_TRY(file.write(std::as_bytes(std::span(entry.literal))));
      continue;
    }
    StreamReport stream;
    MOEC_TRY(views.next(sink, stream));
    MOEC_CHECK(file.bytes() == entry.offset + entry.bytes, "{} delivered {} bytes, not {}",
               entry.key, file.bytes() - entry.offset, entry.bytes);
    report.bytes_read += stream.bytes_read;
    if (reported.contains(entry.key)) continue;
    report.tensors.push_back(
        {entry.name, entry.key, entry.offset, entry.bytes, stream.overflows, stream.nonfinite});
    report.weight_bytes += entry.bytes;
    if (options.on_written) MOEC_TRY(options.on_written(entry.view, report.tensors.back()));
  }
  return {};
}

}  // namespace moec
