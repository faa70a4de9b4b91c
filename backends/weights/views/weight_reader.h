// Reads the values of weight views from checkpoint files. But for equal_tensors.h, nothing else
// reads the payload of a checkpoint.
//
// The elements of a view are delivered in C order, in tiles, with all steps of the view applied.
// The memory needed is bounded by ReaderOptions, whatever the size of the tensors; cost() computes
// it from metadata alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/weights/views/mapped_values.h"
#include "backends/weights/views/view_series.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

inline constexpr size_t kDefaultTileBytes = size_t{1} << 20;

// Bytes that an export plans per file being written: BulkWriter::kHeldBytes, which
// backends/emit/emit.cc compares.
inline constexpr uint64_t kWriterBytes = uint64_t{12} << 20;

// Options for an export that streams `jobs` shards at a time in `memory_bytes`. Each job may read
// with an equal part of what is left after the program itself, the files being written, and
// `plan_bytes` for what a large plan needs beyond a usual one, and after `job_bytes` of its own
// that are for something else. Error: weights.over_budget.
Result<ReaderOptions> export_reader(uint64_t memory_bytes, int jobs, uint64_t plan_bytes = 0,
                                    uint64_t job_bytes = 0);
// The same for a time when nothing is read or written.
Status check_plan_bytes(uint64_t memory_bytes, uint64_t plan_bytes);

// What streaming a view takes. Known before anything is read.
struct ViewCost {
  uint64_t result_bytes = 0;   // delivered by stream()
  uint64_t scratch_bytes = 0;  // held by stream() at one time; an upper bound
  bool operator==(const ViewCost&) const = default;
};

// May be used from several threads at once.
class WeightReader {
 public:
  // Opens each file of the table. Errors: weights.open, weights.not_a_file, weights.file_changed
  // (the size differs from the one in the table).
  static Result<WeightReader> open(WeightTable table, ReaderOptions options = {});

  // A reader of the same files that gets its series from `maker` (shared_views.h).
  using SeriesMaker =
      std::function<Result<ViewSeries>(std::vector<WeightView> views, size_t tile_bytes)>;
  WeightReader with_series(SeriesMaker maker) const;

  // The same reader with other options.
  WeightReader with_options(ReaderOptions options) &&;

  WeightReader(WeightReader&&) noexcept;
  WeightReader& operator=(WeightReader&&) noexcept;
  ~WeightReader();

  const WeightTable& table() const;

  // Succeeds if all files are as they were when they were opened. A stream checks its files once,
  // at its start; call this after it to know that the delivered bytes belong together. Error
  // weights.file_changed.
  Status check_unchanged() const;

  // Errors: those of view_type(), weights.unknown_tensor, weights.type_mismatch,
  // weights.out_of_range, weights.over_budget (ReaderOptions::memory_bytes).
  Result<ViewCost> cost(const WeightView& view, size_t tile_bytes = kDefaultTileBytes) const;

  // A series that delivers the views in this order, in tiles of at most `tile_bytes` (but at least
  // one element). Errors: those of cost().
  Result<ViewSeries> series(std::vector<WeightView> views,
                            size_t tile_bytes = kDefaultTileBytes) const;

  // Delivers one view to the sink and adds to `report`. Errors: those of cost(), weights.read,
  // weights.file_changed. Errors name the tensor.
  Status stream(const WeightView& view, size_t tile_bytes, const TileSink& sink,
                StreamReport& report) const;

  // All elements of the view as f32; integers and bools are converted. Errors: those of stream(),
  // weights.too_large if the result would take more than `limit_bytes`.
  Result<std::vector<float>> read_f32(const WeightView& view, uint64_t limit_bytes) const;

  // The elements of the view where they lie in a mapped file; nothing if they do not lie side by
  // side there as f32, f16 or bf16, or if the file cannot be mapped. Errors: those of cost().
  Result<std::optional<MappedValues>> map(const WeightView& view) const;

  // Reads the view only for the counts of its report. Errors: those of stream().
  Result<StreamReport> scan(const WeightView& view) const;

 private:
  struct Impl;
  WeightReader(std::shared_ptr<Impl> impl, SeriesMaker maker);
  std::shared_ptr<Impl> impl_;  // constant once it is shared
  SeriesMaker maker_;           // empty: the files are read
};

}  // namespace moec
