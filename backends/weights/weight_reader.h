// Reads the payload that weight views stand for. The only place that touches checkpoint bytes.
//
// A view is delivered in C order, in tiles, through the view algebra. The memory needed is bounded
// by ReaderOptions, whatever the size of the tensors: cost() tells it from metadata alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

inline constexpr size_t kDefaultTileBytes = size_t{1} << 20;

struct ReaderOptions {
  // A view that reorders its source is gathered in blocks of about this size, so that each read of
  // the file takes a useful stretch of it.
  size_t gather_bytes = size_t{32} << 20;
  // Stretches of the file that lie near each other are read together, up to this size.
  size_t band_bytes = size_t{1} << 20;
  // The most that one stream may hold. Blocks are made smaller, and fewer are read at a time, to
  // keep to it.
  uint64_t memory_bytes = uint64_t{256} << 20;
  // How many blocks of a view are read and converted at a time, each by a thread of its own, while
  // the sink takes an earlier one. With 1 the caller's thread does it all.
  uint64_t readers = 1;
  // Large reads of what the page cache does not hold go past it: what is read once is not worth
  // keeping, and one copy less is twice as fast.
  bool past_cache = false;
};

// What an export counts for a file in the making; backends/files/bulk_writer.cc holds to it.
inline constexpr uint64_t kWriterBytes = uint64_t{12} << 20;

// For an export that streams `jobs` shards at a time in `memory_bytes`: as much as that leaves to
// the reading of each, after the fixed needs of the program and of the files that are written, and
// `plan_bytes` for what a large plan adds. Error: weights.over_budget.
Result<ReaderOptions> export_reader(uint64_t memory_bytes, int jobs, uint64_t plan_bytes = 0);

// What a view needs. Known before anything is read.
struct ViewCost {
  uint64_t result_bytes = 0;   // what stream() delivers in all
  uint64_t scratch_bytes = 0;  // the most that stream() holds at one time; an upper bound
  bool operator==(const ViewCost&) const = default;
};

struct StreamReport {
  uint64_t elements = 0;    // delivered
  uint64_t overflows = 0;   // finite values that a cast, scale or dequant made infinite
  uint64_t nans = 0;        // NaNs among the delivered elements
  uint64_t bytes_read = 0;  // from files
  // The most bytes held in buffers at one time; with several readers an upper bound.
  uint64_t peak_scratch = 0;
  StreamReport& operator+=(const StreamReport& other);
};

// Takes the next bytes of a view, little-endian. A failure ends the stream and is handed on.
using TileSink = std::function<Status(std::span<const std::byte> tile)>;

// Views that are delivered one after the other. While one is delivered, what follows it is read, so
// that a series of small views keeps the disk as busy as one large view. Must not outlive its
// reader.
class ViewSeries {
 public:
  // Where the views come from.
  class Source {
   public:
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual ~Source() = default;
    virtual Status next(const TileSink& sink, StreamReport& report) = 0;
  };
  explicit ViewSeries(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  // Delivers the next view. As WeightReader::stream(). After a failure there is no next one.
  Status next(const TileSink& sink, StreamReport& report) { return source_->next(sink, report); }

 private:
  std::unique_ptr<Source> source_;
};

// May be used from several threads at once.
class WeightReader {
 public:
  // Opens each file of the table. Errors: weights.open, weights.not_a_file, weights.file_changed
  // (the size is not the one that the table tells).
  static Result<WeightReader> open(WeightTable table, ReaderOptions options = {});

  // A reader of the same files whose series `maker` makes (shared_views.h).
  using SeriesMaker =
      std::function<Result<ViewSeries>(std::vector<WeightView> views, size_t tile_bytes)>;
  WeightReader with_series(SeriesMaker maker) const;

  WeightReader(WeightReader&&) noexcept;
  WeightReader& operator=(WeightReader&&) noexcept;
  ~WeightReader();

  const WeightTable& table() const;

  // All files are still as they were opened. A stream looks once, at its start; asked behind it,
  // this tells whether its bytes can be trusted. Error weights.file_changed.
  Status check_unchanged() const;

  // Errors: those of view_type(), weights.unknown_tensor, weights.type_mismatch,
  // weights.out_of_range, weights.over_budget (ReaderOptions::memory_bytes).
  Result<ViewCost> cost(const WeightView& view, size_t tile_bytes = kDefaultTileBytes) const;

  // The views, to be delivered in this order in tiles of at most `tile_bytes` (but at least one
  // element). Errors as cost().
  Result<ViewSeries> series(std::vector<WeightView> views,
                            size_t tile_bytes = kDefaultTileBytes) const;

  // A series of one view. Adds to `report`. Further errors: weights.read, weights.file_changed.
  // Errors name the tensor.
  Status stream(const WeightView& view, size_t tile_bytes, const TileSink& sink,
                StreamReport& report) const;

  // The whole view as f32; integers and bools are converted. Error weights.too_large when that
  // would take more than `limit_bytes`.
  Result<std::vector<float>> read_f32(const WeightView& view, uint64_t limit_bytes) const;

  // How many elements are NaN or infinite.
  Result<uint64_t> count_nonfinite(const WeightView& view) const;

 private:
  struct Impl;
  WeightReader(std::shared_ptr<const Impl> impl, SeriesMaker maker);
  std::shared_ptr<const Impl> impl_;
  SeriesMaker maker_;  // none: by reading
};

}  // namespace moec
