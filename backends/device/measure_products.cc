#include "backends/device/measure_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backends/weights/views/weight_reader.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// More weights than this do not make the caches of a CPU miss more often.
constexpr int64_t kMostWeights = 64;

struct MeasuredForm {
  std::string_view form;
  DType dtype = DType::f32;
};
// The codes of a weight of an f16 export are rounded to f16, which takes time.
constexpr std::array<MeasuredForm, 23> kForms = {{
    {"float", DType::f32},        {"float", DType::f16},        {"float", DType::bf16},
    {"int8", DType::f32},         {"int8", DType::f16},         {"int8:32", DType::f32},
    {"int8:32", DType::f16},      {"int4:32", DType::f32},      {"int4:32", DType::f16},
    {"int4:128", DType::f32},     {"int4:128", DType::f16},     {"int1-lut:g16", DType::f32},
    {"int1-lut:g16", DType::f16}, {"int2-lut:g16", DType::f32}, {"int2-lut:g16", DType::f16},
    {"int3-lut:g16", DType::f32}, {"int3-lut:g16", DType::f16}, {"int4-lut:g16", DType::f32},
    {"int4-lut:g16", DType::f16}, {"int6-lut:g16", DType::f32}, {"int6-lut:g16", DType::f16},
    {"int8-lut:g16", DType::f32}, {"int8-lut:g16", DType::f16},
}};

// Places tensors one after another in the file, from its start again when it is full.
class Placer {
 public:
  Placer(const ScratchFile& scratch, WeightTable& table) : table_(table) {
    table_.files.push_back({.path = scratch.path(), .bytes = scratch.file().size()});
  }

  WeightView place(std::string name, const Type& type) {
    constexpr uint64_t kAlignment = 64;
    const auto bytes = static_cast<uint64_t>(type.bytes());
    const uint64_t size = table_.files.front().bytes;
    MOEC_CHECK(bytes <= size, "a tensor of {} bytes in a file of {}", bytes, size);
    if (at_ + bytes > size) at_ = 0;
    table_.tensors[name] = {0, at_, type};
    at_ = (at_ + bytes + kAlignment - 1) / kAlignment * kAlignment;
    return tensor_view(std::move(name), type);
  }

 private:
  WeightTable& table_;
  uint64_t at_ = 0;
};

WeightView view_of(const Encoding& encoding, const Type& type, int64_t number, Placer& placer) {
  if (is_plain(encoding)) return placer.place(fmt::format("{}", number), type);
  std::vector<WeightView> parts;
  for (const StoredPart& part : stored_parts(encoding, type))
    parts.push_back(placer.place(fmt::format("{}.{}", number, enum_name(part.part)), part.type));
  return decoded_view(encoding, type, std::move(parts));
}

// The weights of a form in the mapped file. Empty if the engine does not read the form's codes in
// place.
Result<std::vector<StoredWeight>> store(const ScratchFile& scratch, const Encoding& encoding,
                                        const Type& type) {
  WeightTable table;
  Placer placer(scratch, table);
  const auto fit = static_cast<int64_t>(scratch.file().size()) / stored_bytes(encoding, type);
  std::vector<WeightView> views;
  for (int64_t i = 0; i < std::clamp<int64_t>(fit, 1, kMostWeights); ++i)
    views.push_back(view_of(encoding, type, i, placer));
  MOEC_ASSIGN(const WeightReader reader, WeightReader::open(std::move(table)));
  std::vector<StoredWeight> weights;
  for (const WeightView& view : views) {
    if (is_plain(encoding)) {
      MOEC_ASSIGN(const std::optional<MappedValues> values, reader.map(view));
      if (values) weights.emplace_back(*values, StoredForm{});
    } else {
      MOEC_ASSIGN(const std::optional<MappedView> codes, reader.map_codes(view));
      if (codes) weights.emplace_back(*codes, StoredForm{});
    }
  }
  return weights;
}

Result<std::vector<StoredWeight>> store_form(const ScratchFile& scratch, const MeasuredForm& form,
                                             const MatrixShape& shape) {
  const Type type{form.dtype, {shape.rows, shape.inner}};
  MOEC_ASSIGN(const WeightForm parsed, parse_weight_form(form.form));
  MOEC_ASSIGN(const Encoding encoding, encoding_of(parsed, {type, 1, 0, std::string(form.form)}));
  MOEC_ASSIGN(std::vector<StoredWeight> weights, store(scratch, encoding, type));
  if (!weights.empty()) return weights;
  // The engine loads weights whose codes it does not read in place as f32.
  MOEC_ASSIGN(weights, store(scratch, PlainEncoding{}, {DType::f32, type.dims}));
  if (!weights.empty()) return weights;
  return fail("doctor.mapping", "the system cannot map files of the folder into memory",
              "pass --folder with a folder of a local disk", {.file = scratch.path()});
}

std::vector<float> activations_of(int64_t elements) {
  std::vector<float> values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f + 0.5f * static_cast<float>(i % 7);
  return values;
}

class FormTimer {
 public:
  FormTimer(const Products& products, const ScratchFile& scratch, const ProductGrid& grid,
            const Repetition& repetition)
      : products_(products), scratch_(scratch), grid_(grid), repetition_(repetition) {}

  Result<ProductTimes> times(const MeasuredForm& form) const {
    std::vector<ProductPoint> points;
    for (const MatrixShape& shape : grid_.shapes) {
      MOEC_ASSIGN(const std::vector<StoredWeight> weights, store_form(scratch_, form, shape));
      for (const int64_t tokens : grid_.tokens) {
        MOEC_ASSIGN(const double seconds, this->seconds(weights, shape, tokens));
        points.push_back({shape.elements(), tokens, seconds});
      }
    }
    return ProductTimes::of(std::move(points)).value();
  }

 private:
  // Returns the duration of a product with one of the weights.
  Result<double> seconds(const std::vector<StoredWeight>& weights, const MatrixShape& shape,
                         int64_t tokens) const {
    const std::vector<float> x = activations_of(shape.inner * tokens);
    std::vector<float> out(static_cast<size_t>(shape.rows * tokens));
    const auto multiply = [&](size_t call) -> Status {
      products_.multiply({.stored = &weights[call % weights.size()]}, {.values = x.data()}, false,
                         {shape.rows, shape.inner, tokens}, out.data());
      return {};
    };
    // The first products map the pages of the file.
    if (tokens == grid_.tokens.front())
      for (size_t call = 0; call < weights.size(); ++call) MOEC_TRY(multiply(call));
    return median_seconds(repetition_, multiply);
  }

  const Products& products_;
  const ScratchFile& scratch_;
  const ProductGrid& grid_;
  const Repetition& repetition_;
};

}  // namespace

Result<std::vector<FormTimes>> measure_forms(const Products& products, const ScratchFile& scratch,
                                             const ProductGrid& grid,
                                             const Repetition& repetition) {
  const FormTimer timer(products, scratch, grid, repetition);
  std::vector<FormTimes> forms;
  for (const MeasuredForm& form : kForms) {
    MOEC_ASSIGN(ProductTimes times, timer.times(form));
    MOEC_ASSIGN(const WeightForm parsed, parse_weight_form(form.form));
    forms.push_back({parsed, form.dtype, std::move(times)});
  }
  return forms;
}

Result<ProductTimes> measure_activations(const Products& products,
                                         const std::vector<int64_t>& tokens,
                                         const Repetition& repetition) {
  constexpr int64_t kHeads = 8, kHeadDim = 64, kKeys = 512;
  const std::vector<float> keys = activations_of(kHeads * kKeys * kHeadDim);
  std::vector<ProductPoint> points;
  for (const int64_t width : tokens) {
    const std::vector<float> queries = activations_of(width * kHeadDim);
    std::vector<float> scores = activations_of(width * kKeys), sums(queries.size());
    const auto attend = [&](size_t) -> Status {
      for (int64_t head = 0; head < kHeads; ++head) {
        const float* part = keys.data() + head * kKeys * kHeadDim;
        products.multiply({.values = queries.data()}, {.values = part}, true,
                          {width, kHeadDim, kKeys}, scores.data());
        products.multiply({.values = scores.data()}, {.values = part}, false,
                          {width, kKeys, kHeadDim}, sums.data());
      }
      return {};
    };
    MOEC_ASSIGN(const double seconds, median_seconds(repetition, attend));
    // Both products of a head have right factors of the same size.
    points.push_back({kHeads * kKeys * kHeadDim, width, seconds / 2});
  }
  return ProductTimes::of(std::move(points)).value();
}

}  // namespace moec
