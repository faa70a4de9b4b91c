// Leaf that reads a tensor from its file.
#include <algorithm>
#include <cstring>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/view_node.h"
#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"

namespace moec {

namespace {

// Reading this many unused bytes between two ranges costs less than another call.
constexpr int64_t kGapBytes = 2048;
// Contiguous ranges of at least this size are read directly into the destination.
constexpr int64_t kDirectBytes = 4096;
// Reads of at least this size bypass the page cache, if the options allow it.
constexpr size_t kPastCacheBytes = size_t{128} << 10;

// Unit of reading when elements must be rearranged. A span is one read of the file and covers
// `axis` and all later axes of the walk. Several spans along axis - 1 are read into one buffer, so
// that the copy can transpose them tile by tile.
struct Band {
  size_t axis = 0;    // outermost axis of a span
  int64_t steps = 1;  // number of positions on that axis per span
  int64_t bytes = 0;  // per span
  int64_t spans = 1;  // along axis - 1; more than 1 only if a span covers all of `axis`
};

Band widest_band(const Walk& walk, int64_t width, int64_t limit) {
  Band band{walk.size(), 1, width, 1};
  while (band.axis > 0) {
    const WalkAxis& next = walk[band.axis - 1];
    // `room` is the number of steps along the axis that fit into `limit` bytes. With one step, the
    // band does not grow.
    const int64_t room = 1 + (limit - band.bytes) / next.from;
    if (next.from - band.bytes > kGapBytes || room < 2) break;
    band.axis -= 1;
    band.steps = std::min(room, next.extent);
    band.bytes += (band.steps - 1) * next.from;
    if (band.steps < next.extent) return band;
  }
  if (band.axis > 0)
    band.spans = std::clamp<int64_t>(limit / band.bytes, 1, walk[band.axis - 1].extent);
  return band;
}

class TensorNode : public ViewNode {
 public:
  TensorNode(const TensorRange& range, AffineMap map)
      : ViewNode({range.type.dtype, map.dims}), range_(range), map_(std::move(map)) {}

  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    MOEC_TRY(check_file(context));
    const auto unit = static_cast<int64_t>(width());
    const uint64_t offset = first_of(region);
    const Walk walk = walk_of(region, to.steps);
    if (walk.empty()) return fetch(offset, to.data, width(), context);
    const WalkAxis& inner = walk.back();
    if (inner.from == unit && inner.to == unit && inner.extent * unit >= kDirectBytes)
      return read_direct(offset, to.data, walk, context);
    return read_bands(offset, to.data, walk, context);
  }

  Result<const std::byte*> lend(const Region& region, ReadContext& context) const override {
    const auto unit = static_cast<int64_t>(width());
    const Walk walk = walk_of(region, row_major_steps(region.size, unit));
    const auto bytes = static_cast<size_t>(elements_of(region)) * width();
    const bool is_extent = walk.size() == 1 && walk[0].from == unit && walk[0].to == unit;
    if (!context.options.past_cache || !is_extent || bytes < kPastCacheBytes ||
        bytes > PayloadFile::kLentBytes)
      return nullptr;
    MOEC_TRY(check_file(context));
    context.report.bytes_read += bytes;
    return context.files[range_.file].lend(first_of(region), bytes, context.scratch.bounce());
  }

  std::optional<FileExtent> extent() const override {
    if (!is_contiguous(map_)) return std::nullopt;
    return FileExtent{range_.file,
                      range_.offset + static_cast<uint64_t>(map_.offset) * uint64_t{width()}};
  }

  std::optional<StoredNumbers> numbers() const override {
    const auto at = extent();
    if (!at || !(is_float(type().dtype) || type().dtype == DType::u8)) return std::nullopt;
    return StoredNumbers{*at, type().dtype, 0};
  }

  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    if (elements == 0) return 0;
    return band_bytes(options) + (options.past_cache ? Scratch::kBounceBytes : 0);
  }

  bool reorders() const override {
    int64_t inner = 0;
    for (size_t i = 0; i < map_.dims.size(); ++i)
      if (map_.dims[i] > 1) inner = map_.strides[i];
    return inner > 1;
  }

  NodePtr slice(const SliceStep& step) const override { return with(sliced(map_, step)); }
  NodePtr permute(const PermuteStep& step) const override { return with(permuted(map_, step)); }
  NodePtr reshape(const Dims& dims) const override {
    auto map = reshaped(map_, dims);
    return map ? with(std::move(*map)) : nullptr;
  }

 private:
  NodePtr with(AffineMap map) const { return std::make_shared<TensorNode>(range_, std::move(map)); }

  // File offset of the region's first element.
  uint64_t first_of(const Region& region) const {
    int64_t first = map_.offset;
    for (size_t i = 0; i < map_.dims.size(); ++i) first += region.begin[i] * map_.strides[i];
    return range_.offset + static_cast<uint64_t>(first) * width();
  }

  Walk walk_of(const Region& region, const Dims& steps) const {
    Walk walk;
    for (size_t i = 0; i < map_.dims.size(); ++i)
      walk.push_back({region.size[i], map_.strides[i] * static_cast<int64_t>(width()), steps[i]});
    return in_source_order(std::move(walk));
  }

  uint64_t band_bytes(const ReaderOptions& options) const {
    return std::max<uint64_t>(options.band_bytes, width());
  }

  Status check_file(ReadContext& context) const {
    if (context.held != nullptr || context.checked[range_.file]) return {};
    context.checked[range_.file] = true;
    return context.files[range_.file].check_unchanged();
  }

  Status fetch(uint64_t offset, std::byte* to, size_t bytes, ReadContext& context) const {
    if (context.held != nullptr) return copy_held(offset, to, bytes, *context.held);
    context.report.bytes_read += bytes;
    const PayloadFile& file = context.files[range_.file];
    if (context.options.past_cache && bytes >= kPastCacheBytes)
      return file.read_direct(offset, to, bytes, context.scratch.bounce());
    return file.read(offset, to, bytes);
  }

  static Status copy_held(uint64_t offset, std::byte* to, size_t bytes, const HeldBytes& held) {
    const std::byte* from = held.find(offset, bytes);
    MOEC_CHECK(from != nullptr, "bytes [{}, {} + {}) of a weight are not held", offset, offset,
               bytes);
    std::memcpy(to, from, bytes);
    return {};
  }

  Status read_direct(uint64_t offset, std::byte* to, const Walk& walk, ReadContext& context) const {
    const auto bytes = static_cast<size_t>(walk.back().extent) * width();
    return for_each_offset(walk, walk.size() - 1, [&](int64_t from, int64_t at) {
      return fetch(offset + static_cast<uint64_t>(from), to + at, bytes, context);
    });
  }

  Status read_bands(uint64_t offset, std::byte* to, const Walk& walk, ReadContext& context) const {
    const Band band = widest_band(walk, static_cast<int64_t>(width()),
                                  static_cast<int64_t>(band_bytes(context.options)));
    auto buffer = context.scratch.take(static_cast<size_t>(band.bytes * band.spans));
    const bool side_by_side = band.spans > 1;
    const size_t outer = side_by_side ? band.axis - 1 : band.axis;
    const Walk inside(walk.begin() + static_cast<std::ptrdiff_t>(outer), walk.end());
    return for_each_offset(walk, outer, [&](int64_t from, int64_t at) {
      const uint64_t begin = offset + static_cast<uint64_t>(from);
      return side_by_side ? read_spans(begin, to + at, inside, band, buffer.data(), context)
                          : read_long_spans(begin, to + at, inside, band, buffer.data(), context);
    });
  }

  // Reads band.spans spans per copy. The first axis of the walk counts spans.
  Status read_spans(uint64_t offset, std::byte* to, Walk walk, const Band& band, std::byte* buffer,
                    ReadContext& context) const {
    const WalkAxis along = walk.front();
    // In the buffer, spans follow one another without the gaps of the file.
    walk.front().from = band.bytes;
    for (int64_t done = 0; done < along.extent; done += band.spans) {
      walk.front().extent = std::min(band.spans, along.extent - done);
      for (int64_t i = 0; i < walk.front().extent; ++i)
        MOEC_TRY(fetch(offset + static_cast<uint64_t>((done + i) * along.from),
                       buffer + i * band.bytes, static_cast<size_t>(band.bytes), context));
      copy_strided(buffer, to + done * along.to, walk, width());
    }
    return {};
  }

  // A span covers part of the first axis of the walk; the last span may be shorter.
  Status read_long_spans(uint64_t offset, std::byte* to, Walk walk, const Band& band,
                         std::byte* buffer, ReadContext& context) const {
    if (walk.empty()) return fetch(offset, to, width(), context);
    const WalkAxis along = walk.front();
    for (int64_t done = 0; done < along.extent; done += band.steps) {
      walk.front().extent = std::min(band.steps, along.extent - done);
      const int64_t bytes = band.bytes - (band.steps - walk.front().extent) * along.from;
      MOEC_TRY(fetch(offset + static_cast<uint64_t>(done * along.from), buffer,
                     static_cast<size_t>(bytes), context));
      copy_strided(buffer, to + done * along.to, walk, width());
    }
    return {};
  }

  TensorRange range_;
  AffineMap map_;
};

}  // namespace

NodePtr tensor_node(const TensorRange& range) {
  return std::make_shared<TensorNode>(range, whole(range.type.dims));
}

// Leaves that read no file: splats and seeded elements.

namespace {

class SplatNode : public ViewNode {
 public:
  SplatNode(float value, Type type) : ViewNode(std::move(type)), value_(value) {}

  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    std::byte element[sizeof(float)];
    const auto count = static_cast<uint64_t>(elements_of(region));
    context.report.overflows += encode(type().dtype, &value_, 1, element) * count;
    Walk walk = scatter_walk(region, 0, to);
    // A step of 0 makes all positions copy the same element.
    for (WalkAxis& axis : walk) axis.from = 0;
    copy_strided(element, to.data, walk, width());
    return {};
  }

  std::optional<StoredNumbers> numbers() const override {
    return StoredNumbers{{}, round_to(type().dtype, value_), 0};
  }

  uint64_t scratch_bytes(uint64_t, const ReaderOptions&) const override { return 0; }
  bool reorders() const override { return false; }

  NodePtr slice(const SliceStep& step) const override {
    return reshape(sliced(whole(type().dims), step).dims);
  }
  NodePtr permute(const PermuteStep& step) const override {
    return reshape(permuted(whole(type().dims), step).dims);
  }
  NodePtr reshape(const Dims& dims) const override {
    return std::make_shared<SplatNode>(value_, Type{type().dtype, dims});
  }

 private:
  float value_;
};

class SeededNode : public ViewNode {
 public:
  SeededNode(uint64_t seed, DType dtype, AffineMap map)
      : ViewNode({dtype, map.dims}), seed_(seed), map_(std::move(map)) {}

  Status read(const Region& region, const Destination& to, ReadContext&) const override {
    int64_t first = map_.offset;
    Walk walk;
    for (size_t i = 0; i < map_.dims.size(); ++i) {
      first += region.begin[i] * map_.strides[i];
      walk.push_back({region.size[i], map_.strides[i], to.steps[i]});
    }
    return for_each_offset(walk, walk.size(), [&](int64_t from, int64_t at) -> Status {
      const float value = seeded_element(seed_, static_cast<uint64_t>(first + from));
      encode(type().dtype, &value, 1, to.data + at);
      return {};
    });
  }

  uint64_t scratch_bytes(uint64_t, const ReaderOptions&) const override { return 0; }
  bool reorders() const override { return false; }

  NodePtr slice(const SliceStep& step) const override { return with(sliced(map_, step)); }
  NodePtr permute(const PermuteStep& step) const override { return with(permuted(map_, step)); }
  NodePtr reshape(const Dims& dims) const override {
    auto map = reshaped(map_, dims);
    return map ? with(std::move(*map)) : nullptr;
  }

 private:
  NodePtr with(AffineMap map) const {
    return std::make_shared<SeededNode>(seed_, type().dtype, std::move(map));
  }

  uint64_t seed_;
  AffineMap map_;
};

}  // namespace

NodePtr splat_node(double value, const Type& type) {
  return std::make_shared<SplatNode>(static_cast<float>(value), type);
}

NodePtr seeded_node(uint64_t seed, const Type& type) {
  return std::make_shared<SeededNode>(seed, type.dtype, whole(type.dims));
}

}  // namespace moec
