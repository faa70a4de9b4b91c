// Delivers the values of pieces (tensor_recipe.h), tile by tile.
#pragma once

#include <map>
#include <string>

#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/upcycle/tensor_recipe.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Maximum bytes of a low-rank matrix in f32.
inline constexpr uint64_t kMaxLowRankBytes = uint64_t{32} << 20;

class PieceWriter {
 public:
  explicit PieceWriter(const WeightReader& weights) : weights_(weights) {}

  // Delivers the piece in the element type `dtype`. Errors: those of WeightReader, upcycle.overflow
  // (a finite value becomes infinite in `dtype`).
  Status write(const TensorPiece& piece, DType dtype, const TileSink& sink);

  // Counts the source values that are NaN or infinite, over all pieces written so far.
  uint64_t nonfinite() const { return nonfinite_; }

 private:
  struct Moments {
    double mean = 0, std = 0;
  };
  Status write_view(const TensorPiece& piece, DType dtype, const TileSink& sink);
  Status write_changed(const TensorPiece& piece, DType dtype, const TileSink& sink);
  // Mean and standard deviation over a view; results of the last few views are cached.
  Result<Moments> moments_of(const WeightView& view);

  const WeightReader& weights_;
  uint64_t nonfinite_ = 0;
  std::map<std::string, Moments> moments_;  // by the text of the view
};

}  // namespace moec
