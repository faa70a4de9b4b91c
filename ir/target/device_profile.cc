#include "ir/target/device_profile.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

template <class Number>
std::vector<int64_t> distinct(const std::vector<ProductPoint>& points, Number number) {
  std::vector<int64_t> numbers;
  for (const ProductPoint& point : points) numbers.push_back(number(point));
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// A position between two entries of a list, or beyond them: entry `low` plus `share` of the
// difference to entry `high`.
struct Between {
  size_t low = 0, high = 0;
  double share = 0;
  double of(double at_low, double at_high) const {
    if (share <= 1) return at_low + share * (at_high - at_low);
    // Values that decrease would reach zero beyond the list, so they stay as they are.
    return at_high + (share - 1) * std::max(0.0, at_high - at_low);
  }
};

// `at` must not be below the first number.
Between locate(const std::vector<int64_t>& numbers, double at) {
  if (numbers.size() == 1) return {};
  size_t high = 1;
  while (high + 1 < numbers.size() && static_cast<double>(numbers[high]) < at) ++high;
  const auto from = static_cast<double>(numbers[high - 1]), to = static_cast<double>(numbers[high]);
  return {high - 1, high, (at - from) / (to - from)};
}

}  // namespace

std::optional<ProductTimes> ProductTimes::of(std::vector<ProductPoint> points) {
  ProductTimes times;
  times.sizes_ = distinct(points, [](const ProductPoint& point) { return point.weights; });
  times.widths_ = distinct(points, [](const ProductPoint& point) { return point.tokens; });
  std::sort(points.begin(), points.end(), [](const ProductPoint& a, const ProductPoint& b) {
    return std::pair(a.weights, a.tokens) < std::pair(b.weights, b.tokens);
  });
  if (points.empty() || points.size() != times.sizes_.size() * times.widths_.size())
    return std::nullopt;
  for (size_t i = 0; i < points.size(); ++i) {
    const ProductPoint& point = points[i];
    // Duplicates leave another point of the grid without an entry.
    const bool in_grid = point.weights == times.sizes_[i / times.widths_.size()] &&
                         point.tokens == times.widths_[i % times.widths_.size()];
    const bool is_positive = point.weights > 0 && point.tokens > 0 && point.seconds > 0;
    if (!in_grid || !is_positive) return std::nullopt;
  }
  times.points_ = std::move(points);
  return times;
}

double ProductTimes::seconds(double weights, double tokens) const {
  if (points_.empty()) return 0;
  const auto smallest = static_cast<double>(sizes_.front());
  const Between width = locate(widths_, std::max(tokens, static_cast<double>(widths_.front())));
  const Between size = locate(sizes_, std::max(weights, smallest));
  const auto at_size = [&](size_t row) {
    const ProductPoint* points = &points_[row * widths_.size()];
    // With a single measured width, the time grows with the number of tokens.
    if (widths_.size() == 1)
      return points->seconds * std::max(1.0, tokens / static_cast<double>(points->tokens));
    return width.of(points[width.low].seconds, points[width.high].seconds);
  };
  const double seconds = size.of(at_size(size.low), at_size(size.high));
  if (weights < smallest || sizes_.size() == 1) return seconds * weights / smallest;
  return seconds;
}

namespace {

// Kind, bits and block size of a storage form; a block of 0 elements is a whole row.
struct StorageKind {
  enum Kind : uint8_t { plain, affine, palette, other } kind = plain;
  int64_t bits = 0, block = 0;
};

StorageKind kind_of(const WeightForm& form) {
  if (const auto* affine = std::get_if<AffineForm>(&form))
    return {StorageKind::affine, affine->bits, affine->block};
  if (const auto* palette = std::get_if<PaletteForm>(&form))
    return {StorageKind::palette, palette->bits, 0};
  return {is_float(form) ? StorageKind::plain : StorageKind::other, 0, 0};
}

StorageKind kind_of(const Encoding& encoding) {
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding))
    return {StorageKind::affine, affine->bits, affine->block.empty() ? 0 : affine->block.back()};
  if (const auto* palette = std::get_if<PaletteEncoding>(&encoding))
    return {StorageKind::palette, palette->bits, 0};
  return {};
}

double log_block(int64_t block, int64_t inner) {
  return std::log2(static_cast<double>(std::max<int64_t>(block == 0 ? inner : block, 1)));
}

}  // namespace

const ProductTimes* DeviceProfile::times_of(const Encoding& encoding, DType dtype,
                                            int64_t inner) const {
  // Larger than any difference of block sizes, so that the type of the values decides first.
  constexpr double kOtherType = 64;
  const StorageKind wanted = kind_of(encoding);
  const ProductTimes* nearest = nullptr;
  double least = 0;
  for (const FormTimes& form : forms) {
    const StorageKind kind = kind_of(form.form);
    if (kind.kind != wanted.kind || kind.bits != wanted.bits) continue;
    // The type of plain values is their storage, so another type has another speed.
    if (kind.kind == StorageKind::plain && form.dtype != dtype) continue;
    const double distance =
        std::abs(log_block(kind.block, inner) - log_block(wanted.block, inner)) +
        (form.dtype == dtype ? 0 : kOtherType);
    if (nearest != nullptr && distance >= least) continue;
    nearest = &form.times;
    least = distance;
  }
  return nearest;
}

double DeviceProfile::read_rate(double bytes) const {
  if (reads.empty()) return 0;
  std::vector<int64_t> sizes;
  for (const RandomReads& read : reads) sizes.push_back(read.bytes);
  const double within =
      std::clamp(bytes, static_cast<double>(sizes.front()), static_cast<double>(sizes.back()));
  const Between at = locate(sizes, within);
  return at.of(reads[at.low].rate, reads[at.high].rate);
}

namespace {

constexpr std::string_view kProfileNextStep = "measure the machine with moec doctor --out PROFILE";

Status read_positive(JsonFields& fields, std::string_view name, double& out) {
  MOEC_TRY(fields.number(name, out));
  if (std::isfinite(out) && out > 0) return {};
  return fields.bad(name, fmt::format("is {}, must be a number above 0", out));
}

Status read_times(JsonFields& fields, std::string_view name, ProductTimes& out) {
  std::vector<ProductPoint> points;
  MOEC_TRY(fields.each(name, [&](JsonFields& item) -> Status {
    ProductPoint point;
    MOEC_TRY(item.positive("weights", point.weights));
    MOEC_TRY(item.positive("tokens", point.tokens));
    MOEC_TRY(read_positive(item, "seconds", point.seconds));
    points.push_back(point);
    return item.finish();
  }));
  auto times = ProductTimes::of(std::move(points));
  if (!times)
    return fields.bad(name, "must have one entry for each combination of weights and tokens");
  out = *std::move(times);
  return {};
}

Status read_form(JsonFields& fields, FormTimes& out) {
  std::string form;
  MOEC_TRY(fields.text("form", form));
  const auto parsed = parse_weight_form(form);
  if (!parsed || is_copy(*parsed) || is_block(*parsed))
    return fields.bad("form", fmt::format("has the unknown form \"{}\"", printable(form, 60)));
  out.form = *parsed;
  MOEC_TRY(fields.choice("dtype", out.dtype));
  if (!is_float(out.dtype)) return fields.bad("dtype", "must be f32, f16 or bf16");
  MOEC_TRY(read_times(fields, "times", out.times));
  return fields.finish();
}

Status read_ops(JsonFields& fields, DeviceProfile& out) {
  MOEC_ASSIGN(JsonFields elements, fields.object("element_seconds"));
  for (size_t i = 0; i < out.element_seconds.size(); ++i)
    MOEC_TRY(read_positive(elements, enum_name(static_cast<ElementWork>(i)),
                           at(out.element_seconds, i)));
  MOEC_TRY(elements.finish());
  MOEC_TRY(read_positive(fields, "op_seconds", out.op_seconds));
  MOEC_TRY(read_positive(fields, "idle_op_seconds", out.idle_op_seconds));
  return read_positive(fields, "run_seconds", out.run_seconds);
}

Status read_disk(JsonFields& fields, DeviceProfile& out) {
  MOEC_TRY(read_positive(fields, "sequential_rate", out.sequential_rate));
  MOEC_TRY(fields.each("random_reads", [&](JsonFields& item) -> Status {
    RandomReads read;
    MOEC_TRY(item.positive("bytes", read.bytes));
    MOEC_TRY(read_positive(item, "rate", read.rate));
    if (!out.reads.empty() && read.bytes <= out.reads.back().bytes)
      return item.bad("bytes", "must be larger than in the entry before");
    out.reads.push_back(read);
    return item.finish();
  }));
  if (!out.reads.empty()) return {};
  return fields.bad("random_reads", "must not be empty");
}

// Accepts the fields that moec doctor --json adds to the profile, as every report has them: a user
// may redirect that output to a file instead of passing --out. The report of a failure lacks the
// profile, so there is no need to check them.
Status skip_report_fields(JsonFields& fields) {
  for (const std::string_view name : {"ok", "diagnostics"})
    if (fields.has(name)) MOEC_TRY(fields.value(name));
  return {};
}

Result<DeviceProfile> read_profile(JsonFields fields) {
  DeviceProfile profile;
  MOEC_TRY(fields.form(kDeviceProfileFormat, kDeviceProfileVersion));
  MOEC_TRY(fields.text("engine", profile.engine));
  MOEC_TRY(fields.text("vectors", profile.vectors));
  MOEC_TRY(fields.positive("threads", profile.threads));
  MOEC_TRY(fields.positive("memory_bytes", profile.memory_bytes));
  MOEC_TRY(read_positive(fields, "memory_rate", profile.memory_rate));
  MOEC_TRY(fields.each(
      "forms", [&](JsonFields& item) { return read_form(item, profile.forms.emplace_back()); }));
  if (profile.forms.empty()) return fields.bad("forms", "must not be empty");
  MOEC_TRY(read_times(fields, "activations", profile.activations));
  MOEC_TRY(read_ops(fields, profile));
  MOEC_TRY(read_disk(fields, profile));
  MOEC_TRY(skip_report_fields(fields));
  MOEC_TRY(fields.finish());
  return profile;
}

}  // namespace

Result<DeviceProfile> parse_device_profile(std::string_view text, const std::string& file) {
  const JsonReport report(text, file,
                          JsonCodes::by_prefix("device_profile", std::string(kProfileNextStep)));
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  return read_profile(std::move(fields));
}

Result<DeviceProfile> read_device_profile(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "device_profile.file"));
  return parse_device_profile(text, path);
}

}  // namespace moec
