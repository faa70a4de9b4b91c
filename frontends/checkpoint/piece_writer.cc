#include "frontends/checkpoint/piece_writer.h"

#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <vector>

#include "backends/weights/views/convert.h"
#include "frontends/checkpoint/counted_normal.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Experts of one layer redraw from few matrices, whose moments would otherwise be computed per
// expert.
constexpr size_t kKeptMoments = 16;

// Returns the name of a view in messages: the first tensor that the view reads.
std::string name_of(const WeightView& view) {
  std::string name;
  for_each_tensor(view, [&](const TensorSource& tensor, const Type&) {
    if (name.empty()) name = tensor.name;
  });
  return name;
}

WeightView in_f32(const WeightView& view) { return then(view, CastStep{DType::f32}); }

struct LowRankValues {
  std::vector<float> b, a;
  int64_t rank = 0;
  double factor = 1;
};

Result<LowRankValues> read_low_rank(const LowRank& low_rank, const WeightReader& weights) {
  MOEC_ASSIGN(const Type type, view_type(low_rank.a));
  LowRankValues values{{}, {}, type.dims[0], low_rank.factor};
  MOEC_ASSIGN(values.b, weights.read_f32(low_rank.b, kMaxLowRankBytes));
  MOEC_ASSIGN(values.a, weights.read_f32(low_rank.a, kMaxLowRankBytes));
  return values;
}

// Applies a piece's changes to the values of a matrix. The values must arrive in C order, in tiles
// of any size.
class Changes {
 public:
  Changes(const TensorPiece& piece, int64_t columns) : piece_(piece), columns_(columns) {
    if (piece.redraw) drawn_.emplace(piece.redraw->seed);
    if (piece.noise) noise_.emplace(piece.noise->seed);
  }

  void set(LowRankValues low_rank) { low_rank_ = std::move(low_rank); }
  void set_moments(double mean, double std) {
    mean_ = mean;
    std_ = std;
  }

  // Changes the next values in-place.
  void apply(std::vector<float>& values) {
    for (float& value : values) value = changed(value);
  }
  // Number of results beyond the range of f32.
  uint64_t overflows() const { return overflows_; }

 private:
  float changed(float value) {
    // Computes in double, so that the result is rounded only once.
    double sum = value;
    if (low_rank_) sum += low_rank_->factor * product(row_, column_);
    // A redrawn unit ignores the stored value and the update.
    if (drawn_ &&
        piece_.redraw->units[static_cast<size_t>(piece_.redraw->axis == 0 ? row_ : column_)])
      // The position of the value is its index in the sequence, so tiles may have any size.
      sum = mean_ + std_ * drawn_->at(next_);
    sum *= piece_.factor;
    if (noise_) sum += piece_.noise->std * noise_->at(next_);
    advance();
    return rounded(sum);
  }

  // Avoids a direct conversion, because converting a double beyond the range of f32 is undefined
  // behaviour.
  float rounded(double sum) {
    if (std::abs(sum) <= static_cast<double>(FLT_MAX) || !std::isfinite(sum))
      return static_cast<float>(sum);
    ++overflows_;
    return std::copysign(HUGE_VALF, static_cast<float>(std::copysign(1.0, sum)));
  }

  void advance() {
    ++next_;
    if (++column_ < columns_) return;
    column_ = 0;
    ++row_;
  }

  double product(int64_t row, int64_t column) const {
    double sum = 0;
    // (B A)[row, column], the element of the low-rank update.
    for (int64_t i = 0; i < low_rank_->rank; ++i)
      sum += static_cast<double>(low_rank_->b[static_cast<size_t>(row * low_rank_->rank + i)]) *
             static_cast<double>(low_rank_->a[static_cast<size_t>(i * columns_ + column)]);
    return sum;
  }

  const TensorPiece& piece_;
  int64_t columns_;
  uint64_t next_ = 0;  // index of the next value
  int64_t row_ = 0, column_ = 0;
  uint64_t overflows_ = 0;
  std::optional<CountedNormals> drawn_, noise_;
  std::optional<LowRankValues> low_rank_;
  double mean_ = 0, std_ = 0;
};

std::vector<float> values_of(std::span<const std::byte> tile) {
  std::vector<float> values(tile.size() / sizeof(float));
  decode(DType::f32, tile.data(), values.size(), values.data());
  return values;
}

}  // namespace

Status PieceWriter::check_finite(uint64_t overflows, DType dtype, const WeightView& view) const {
  if (overflows == 0) return {};
  return fail(maker_.code("overflow"),
              fmt::format("{} values exceed the range of {}", overflows, dtype_name(dtype)),
              "pass --dtype f32, or --dtype bf16 for the same range", {.tensor = name_of(view)});
}

Status PieceWriter::write(const TensorPiece& piece, DType dtype, const TileSink& sink) {
  return piece.is_view() ? write_view(piece, dtype, sink) : write_changed(piece, dtype, sink);
}

// Applies the factor before rounding. Without a factor or a change of type, copies the stored
// bytes.
Status PieceWriter::write_view(const TensorPiece& piece, DType dtype, const TileSink& sink) {
  MOEC_ASSIGN(const Type stored, view_type(piece.view));
  WeightView view = piece.view;
  // Scales in f32 if the type changes: scaling in the stored type would round once more.
  if (stored.dtype != dtype) view = then(std::move(view), CastStep{DType::f32});
  if (piece.factor != 1) view = then(std::move(view), ScaleStep{piece.factor});
  // Only floats can be cast, but a copy may have any type.
  if (piece.factor != 1 || stored.dtype != dtype) view = then(std::move(view), CastStep{dtype});
  StreamReport report;
  MOEC_TRY(weights_.stream(view, kDefaultTileBytes, sink, report));
  nonfinite_ += report.nonfinite;
  return check_finite(report.overflows, dtype, piece.view);
}

Status PieceWriter::write_changed(const TensorPiece& piece, DType dtype, const TileSink& sink) {
  MOEC_ASSIGN(const Type type, view_type(piece.view));
  // Changes counts columns itself, because tiles do not end at rows.
  Changes changes(piece, type.dims.back());
  if (piece.low_rank) {
    MOEC_ASSIGN(LowRankValues low_rank, read_low_rank(*piece.low_rank, weights_));
    changes.set(std::move(low_rank));
  }
  if (piece.redraw) {
    // The moments are those of the whole matrix, not of the redrawn units.
    MOEC_ASSIGN(const Moments moments, moments_of(piece.redraw->like));
    changes.set_moments(moments.mean, moments.std);
  }
  uint64_t overflows = 0;
  std::vector<std::byte> bytes;
  const auto take = [&](std::span<const std::byte> tile) {
    std::vector<float> values = values_of(tile);
    changes.apply(values);
    bytes.resize(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
    overflows += encode(dtype, values.data(), values.size(), bytes.data());
    return sink(bytes);
  };
  StreamReport report;
  MOEC_TRY(weights_.stream(in_f32(piece.view), kDefaultTileBytes, take, report));
  nonfinite_ += report.nonfinite;
  return check_finite(overflows + changes.overflows(), dtype, piece.view);
}

Result<PieceWriter::Moments> PieceWriter::moments_of(const WeightView& view) {
  // The text of a view identifies its values: the tensors and all steps.
  const std::string key = to_string(view);
  if (const auto known = moments_.find(key); known != moments_.end()) return known->second;
  double sum = 0, squares = 0;
  StreamReport report;
  MOEC_TRY(weights_.stream(
      in_f32(view), kDefaultTileBytes,
      [&](std::span<const std::byte> tile) -> Status {
        for (const float value : values_of(tile)) {
          sum += static_cast<double>(value);
          squares += static_cast<double>(value) * static_cast<double>(value);
        }
        return {};
      },
      report));
  // The variance is E[x^2] - E[x]^2, in double because of the cancellation.
  const auto count = static_cast<double>(report.elements);
  const double mean = sum / count;
  // A bounded cache: keys of earlier layers are not used again.
  if (moments_.size() >= kKeptMoments) moments_.clear();
  // Rounding may make the variance of constant values slightly negative.
  return moments_[key] = {mean, std::sqrt(std::max(0.0, squares / count - mean * mean))};
}

}  // namespace moec
