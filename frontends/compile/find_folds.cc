#include "frontends/compile/find_folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/weights/views/convert.h"
#include "frontends/compile/weight_values.h"
#include "ir/graph/scalar.h"
#include "models/shards/build_shard.h"

namespace moec {
namespace {

// The maximum of f16 is 65504, and the next step of its spacing would be 65536. Values from the
// midpoint on round to infinity, because ties round to even.
constexpr float kF16Rounds = 65520;  // smallest value that rounds to infinity in f16
constexpr uint64_t kTile = uint64_t{1} << 20;

// Calls visit(value) for each element of the view as f32, without the view's final cast, which
// could overflow.
template <class Visit>
Status each_value(WeightView view, const WeightReader& reader, Visit visit) {
  if (!view.steps.empty() && std::holds_alternative<CastStep>(view.steps.back()))
    view.steps.pop_back();
  view = then(std::move(view), CastStep{DType::f32});
  StreamReport report;
  const auto take = [&](std::span<const std::byte> tile) -> Status {
    std::vector<float> values(tile.size() / sizeof(float));
    decode(DType::f32, tile.data(), values.size(), values.data());
    std::for_each(values.begin(), values.end(), visit);
    return {};
  };
  return reader.stream(view, kTile, take, report);
}

// Returns the smallest exponent k ≥ 0 for which every finite value times 2^-k fits f16.
Result<int> exponent_for(const WeightView& view, const WeightReader& reader) {
  float largest = 0;
  MOEC_TRY(each_value(view, reader, [&](float value) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }));
  // For values from kF16Rounds on, a factor 2^-k only changes the exponent, so it is exact in f32.
  int k = 0;
  while (std::ldexp(largest, -k) >= kF16Rounds) ++k;
  return k;
}

// Counts the values for which the factor 2^exponent causes additional rounding in f16 (underflow).
// Rounding that also occurs without the factor is not counted.
Result<uint64_t> count_losses(const WeightView& view, int exponent, const WeightReader& reader) {
  uint64_t lost = 0;
  MOEC_TRY(each_value(view, reader, [&](float value) {
    // Compares round(value · 2^k) with round(value) · 2^k. They differ only if the scaled value is
    // subnormal in f16 or vanishes.
    const float plain = f32_from_f16(f16_from_f32(value));
    if (!std::isfinite(plain)) return;
    const float moved = f32_from_f16(f16_from_f32(std::ldexp(value, exponent)));
    if (moved != std::ldexp(plain, exponent)) ++lost;
  }));
  return lost;
}

class FoldFinder {
 public:
  FoldFinder(const WeightReader& reader, Diagnostics& notes) : reader_(reader), notes_(notes) {}

  Status look_at(const Shard& shard) {
    for (const UpAndDown& pair : up_and_down(shard)) {
      Views views{view_of(shard, pair.up), view_of(shard, pair.down), {}};
      if (pair.up_bias) views.bias = view_of(shard, *pair.up_bias);
      if (!seen_.insert(to_string(views.up)).second) continue;
      MOEC_TRY(look_at(views, shard.name));
    }
    return {};
  }

  ScaleFolds take() { return std::move(folds_); }

 private:
  struct Views {
    WeightView up, down;
    std::optional<WeightView> bias;
  };

  static const WeightView& view_of(const Shard& shard, OpId op) {
    return std::get<Weight>(shard.ops[op].data).view;
  }

  Result<bool> fits(const WeightView& view) const {
    MOEC_ASSIGN(const StreamReport report, reader_.scan(view));
    return report.overflows == 0;
  }

  Result<bool> fits_after(const Views& views, int k) const {
    MOEC_ASSIGN(const bool up, fits(scaled(views.up, -k)));
    MOEC_ASSIGN(const bool down, fits(scaled(views.down, k)));
    // The bias of the up projection is added to its output, so the bias has the same factor.
    if (!up || !down || !views.bias) return up && down;
    return fits(scaled(*views.bias, -k));
  }

  Status look_at(const Views& views, const std::string& shard) {
    MOEC_ASSIGN(const bool up, fits(views.up));
    MOEC_ASSIGN(const bool down, fits(views.down));
    // If both projections fit, no fold is needed. If neither fits, a factor that shrinks one
    // projection enlarges the other.
    if (up == down) return {};
    MOEC_ASSIGN(const int room, exponent_for(up ? views.down : views.up, reader_));
    // A positive k divides the up projection by 2^k and multiplies the down projection by it.
    const int k = up ? -room : room;
    MOEC_ASSIGN(const bool both, fits_after(views, k));
    if (!both) return {};
    folds_[to_string(views.up)] = k;
    return note(views, k, shard);
  }

  Status note(const Views& views, int k, const std::string& shard) {
    const WeightView& shrunk = k > 0 ? views.up : views.down;
    // Of the two projections, only the divided one can lose bits: a multiplication by 2^k does not
    // underflow. Losses of the divided bias are not counted.
    MOEC_ASSIGN(const uint64_t lost, count_losses(shrunk, -std::abs(k), reader_));
    const std::string moved =
        fmt::format("divided by 2^{0} to fit f16, and the matching {1} projection multiplied",
                    std::abs(k), k > 0 ? "down" : "up");
    const Place place{.shard = shard, .tensor = first_tensor(shrunk)};
    if (lost == 0)
      notes_.push_back(
          {Severity::note, "export.folded_scale", moved + ", which is exact", "", place});
    else
      notes_.push_back({Severity::warning, "export.fold_inexact",
                        fmt::format("{}; {} of its values lose bits to underflow", moved, lost),
                        "export with --dtype f32 to preserve them", place});
    return {};
  }

  const WeightReader& reader_;
  Diagnostics& notes_;
  std::set<std::string> seen_;
  ScaleFolds folds_;
};

}  // namespace

Result<ScaleFolds> find_folds(const Plan& plan, const WeightReader& reader, Diagnostics& notes) {
  FoldFinder finder(reader, notes);
  // Types other than f16 have the range of f32. A weight seed replaces the checkpoint's values.
  if (plan.build.dtype != DType::f16 || plan.weight_seed) return finder.take();
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    MOEC_ASSIGN(const Shard shard, build_shard(plan, i, plan.build.tokens.front()));
    MOEC_TRY(finder.look_at(shard));
  }
  return finder.take();
}

}  // namespace moec
