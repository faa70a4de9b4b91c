// Reads the values of weight views from checkpoint files. Except for equal_tensors.h, no other code
// reads the payload of a checkpoint.
//
// Delivers the elements of a view in C order, in tiles, with all steps of the view applied.
// ReaderOptions bounds the memory, independent of the size of the tensors; cost() computes it from
// metadata alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/weights/views/mapped_values.h"
#include "backends/weights/views/mapped_view.h"
#include "backends/weights/views/view_series.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

inline constexpr size_t kDefaultTileBytes = size_t{1} << 20;

// Bytes that an export reserves per file that it writes: BulkWriter::kHeldBytes (compared in
// backends/emit/emit.cc).
inline constexpr uint64_t kWriterBytes = uint64_t{12} << 20;

// Returns options for an export that streams `jobs` shards at a time within `memory_bytes`.
// Subtracts memory for the program, for the files being written, and `plan_bytes` for the excess of
// a large plan over a typical one. Each job reads with an equal share of the rest, minus
// `job_bytes` for other purposes. Error: weights.over_budget.
Result<ReaderOptions> export_reader(uint64_t memory_bytes, int jobs, uint64_t plan_bytes = 0,
                                    uint64_t job_bytes = 0);
// Checks that `memory_bytes` suffices while nothing is read or written. Error: weights.over_budget.
Status check_plan_bytes(uint64_t memory_bytes, uint64_t plan_bytes);

// Cost of streaming a view, known before any read.
struct ViewCost {
  uint64_t result_bytes = 0;   // delivered by stream()
  uint64_t scratch_bytes = 0;  // held by stream() at one time; an upper bound
  bool operator==(const ViewCost&) const = default;
};

// Safe to use from several threads at once.
class WeightReader {
 public:
  // Opens each file of the table. Errors: weights.open, weights.not_a_file, weights.file_changed
  // (the size differs from that in the table).
  static Result<WeightReader> open(WeightTable table, ReaderOptions options = {});

  // Returns a reader of the same files that obtains its series from `maker` (shared_views.h).
  using SeriesMaker =
      std::function<Result<ViewSeries>(std::vector<WeightView> views, size_t tile_bytes)>;
  WeightReader with_series(SeriesMaker maker) const;

  // Returns this reader with other options.
  WeightReader with_options(ReaderOptions options) &&;

  WeightReader(WeightReader&&) noexcept;
  WeightReader& operator=(WeightReader&&) noexcept;
  ~WeightReader();

  const WeightTable& table() const;

  // Succeeds if no file changed since it was opened. A stream checks its files once, at its start;
  // call this after the stream to ensure that the delivered bytes belong together. Error:
  // weights.file_changed.
  Status check_unchanged() const;

  // Errors: those of view_type(), weights.unknown_tensor, weights.type_mismatch,
  // weights.out_of_range, weights.over_budget (ReaderOptions::memory_bytes).
  Result<ViewCost> cost(const WeightView& view, size_t tile_bytes = kDefaultTileBytes) const;

  // Returns a series that delivers the views in this order, in tiles of at most `tile_bytes`, but
  // at least one element. Errors: those of cost().
  Result<ViewSeries> series(std::vector<WeightView> views,
                            size_t tile_bytes = kDefaultTileBytes) const;

  // Delivers one view to the sink and adds to `report`. Errors, with the name of the tensor: those
  // of cost(), weights.read, weights.file_changed.
  Status stream(const WeightView& view, size_t tile_bytes, const TileSink& sink,
                StreamReport& report) const;

  // Returns all elements of the view as f32, converted from any type. Errors: those of stream();
  // weights.too_large (the result would exceed `limit_bytes`).
  Result<std::vector<float>> read_f32(const WeightView& view, uint64_t limit_bytes) const;

  // Returns the elements of the view in a mapped file; absent if they are not contiguous there as
  // f32, f16 or bf16, or if the file cannot be mapped. Errors: those of cost().
  Result<std::optional<MappedValues>> map(const WeightView& view) const;

  // As map(), for a view of codes with scales or tables that lie in one mapped file.
  Result<std::optional<MappedView>> map_codes(const WeightView& view) const;

  // Reads the view, discards its elements, and returns the report. Errors: those of stream().
  Result<StreamReport> scan(const WeightView& view) const;

 private:
  struct Impl;
  WeightReader(std::shared_ptr<Impl> impl, SeriesMaker maker);
  std::shared_ptr<Impl> impl_;  // immutable once shared
  SeriesMaker maker_;           // empty: views are read from files
};

}  // namespace moec
