// Delivers the values of pieces (tensor_recipe.h), tile by tile.
#pragma once

#include <map>
#include <string>

#include "backends/weights/views/weight_reader.h"
#include "frontends/checkpoint/checkpoint_maker.h"
#include "frontends/checkpoint/tensor_recipe.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Maximum bytes of a low-rank matrix in f32.
inline constexpr uint64_t kMaxLowRankBytes = uint64_t{32} << 20;

class PieceWriter {
 public:
  PieceWriter(const WeightReader& weights, CheckpointMaker maker)
      : weights_(weights), maker_(maker) {}

  // Delivers the piece in the element type `dtype`. Errors: those of WeightReader; overflow, with
  // the prefix of the command: a finite value becomes infinite in `dtype`.
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

  Status check_finite(uint64_t overflows, DType dtype, const WeightView& view) const;

  const WeightReader& weights_;
  CheckpointMaker maker_;
  uint64_t nonfinite_ = 0;
  std::map<std::string, Moments> moments_;  // by the text of the view
};

}  // namespace moec
