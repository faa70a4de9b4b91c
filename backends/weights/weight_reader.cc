#include "backends/weights/weight_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/weights/convert.h"
#include "backends/weights/view_node.h"

namespace moec {
namespace {

// How a view is cut: elements in a block, which is filled at once, and in a tile, which is
// delivered at once.
struct Cut {
  NodePtr node;
  uint64_t elements = 0, block = 1, tile = 1;

  uint64_t block_bytes() const { return block * node->width(); }
};

Cut cut_view(NodePtr node, size_t tile_bytes, const ReaderOptions& options) {
  if (NodePtr ordered = node->in_c_order()) node = std::move(ordered);
  const uint64_t width = node->width();
  const auto fit = [&](uint64_t bytes) { return std::max<uint64_t>(1, bytes / width); };
  const uint64_t tile = fit(tile_bytes);
  const uint64_t wanted = node->reorders() ? std::max(tile, fit(options.gather_bytes)) : tile;
  const auto elements = static_cast<uint64_t>(node->type().elements());
  return {std::move(node), elements, std::min(wanted, elements), tile};
}

ViewCost cost_of(const Cut& cut, const ReaderOptions& options) {
  return {cut.elements * cut.node->width(),
          cut.block_bytes() + cut.node->scratch_bytes(cut.block, options)};
}

Status deliver(std::span<const std::byte> block, size_t tile_bytes, const TileSink& sink) {
  for (size_t at = 0; at < block.size(); at += tile_bytes)
    MOEC_TRY(sink(block.subspan(at, std::min(tile_bytes, block.size() - at))));
  return {};
}

Status stream_cut(const Cut& cut, const TileSink& sink, ReadContext& context) {
  const ViewNode& node = *cut.node;
  auto buffer = context.scratch.take(static_cast<size_t>(cut.block_bytes()));
  Region region;
  for (uint64_t at = 0; at < cut.elements;) {
    const uint64_t end = std::min(cut.elements, at + cut.block);
    const auto next = static_cast<uint64_t>(first_region(node.type().dims, static_cast<int64_t>(at),
                                                         static_cast<int64_t>(end), region));
    MOEC_TRY(node.read_packed(region, buffer.data(), context));
    const auto count = static_cast<size_t>(next - at);
    context.report.elements += count;
    context.report.nans += count_nans(node.type().dtype, buffer.data(), count);
    MOEC_TRY(deliver({buffer.data(), count * node.width()},
                     static_cast<size_t>(cut.tile) * node.width(), sink));
    at = next;
  }
  return {};
}

}  // namespace

StreamReport& StreamReport::operator+=(const StreamReport& other) {
  elements += other.elements;
  overflows += other.overflows;
  nans += other.nans;
  bytes_read += other.bytes_read;
  peak_scratch = std::max(peak_scratch, other.peak_scratch);
  return *this;
}

struct WeightReader::Impl {
  WeightTable table;
  ReaderOptions options;
  std::vector<PayloadFile> files;  // parallel to table.files
};

WeightReader::WeightReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WeightReader::WeightReader(WeightReader&&) noexcept = default;
WeightReader& WeightReader::operator=(WeightReader&&) noexcept = default;
WeightReader::~WeightReader() = default;

Result<WeightReader> WeightReader::open(WeightTable table, ReaderOptions options) {
  auto impl = std::make_unique<Impl>();
  for (const WeightFile& file : table.files) {
    MOEC_ASSIGN(PayloadFile opened, PayloadFile::open(file));
    impl->files.push_back(std::move(opened));
  }
  impl->table = std::move(table);
  impl->options = options;
  return WeightReader(std::move(impl));
}

const WeightTable& WeightReader::table() const { return impl_->table; }

Result<ViewCost> WeightReader::cost(const WeightView& view, size_t tile_bytes) const {
  MOEC_ASSIGN(NodePtr node, compile_view(view, impl_->table));
  return cost_of(cut_view(std::move(node), tile_bytes, impl_->options), impl_->options);
}

Status WeightReader::stream(const WeightView& view, size_t tile_bytes, const TileSink& sink,
                            StreamReport& report) const {
  MOEC_ASSIGN(NodePtr node, compile_view(view, impl_->table));
  const Cut cut = cut_view(std::move(node), tile_bytes, impl_->options);
  StreamReport own;
  ReadContext context{
      impl_->files, impl_->options, own, {}, std::vector<bool>(impl_->files.size())};
  Status status = stream_cut(cut, sink, context);
  own.peak_scratch = context.scratch.peak();
  report += own;
  return status;
}

Result<std::vector<float>> WeightReader::read_f32(const WeightView& view,
                                                  uint64_t limit_bytes) const {
  MOEC_ASSIGN(Type type, view_type(view));
  const auto elements = static_cast<uint64_t>(type.elements());
  if (elements > limit_bytes / sizeof(float))
    return fail("weights.too_large",
                fmt::format("{} takes {} bytes as f32, the limit is {}", to_string(type),
                            elements * sizeof(float), limit_bytes),
                "raise the limit, or stream the weight in tiles");
  std::vector<float> values(elements);
  size_t done = 0;
  const auto sink = [&](std::span<const std::byte> tile) -> Status {
    const size_t count = tile.size() / static_cast<size_t>(dtype_bytes(type.dtype));
    decode(type.dtype, tile.data(), count, values.data() + done);
    done += count;
    return {};
  };
  StreamReport report;
  MOEC_TRY(stream(view, kDefaultTileBytes, sink, report));
  return values;
}

Result<uint64_t> WeightReader::count_nonfinite(const WeightView& view) const {
  MOEC_ASSIGN(Type type, view_type(view));
  uint64_t found = 0;
  const auto sink = [&](std::span<const std::byte> tile) -> Status {
    const size_t count = tile.size() / static_cast<size_t>(dtype_bytes(type.dtype));
    found += moec::count_nonfinite(type.dtype, tile.data(), count);
    return {};
  };
  StreamReport report;
  MOEC_TRY(stream(view, kDefaultTileBytes, sink, report));
  return found;
}

}  // namespace moec
