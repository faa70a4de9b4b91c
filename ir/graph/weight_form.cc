#include "ir/graph/weight_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"
#include "ir/graph/ops.h"

namespace moec {

namespace {

struct Coded {
  WeightView codes, scales;
  Dims block;
};

int64_t blocks_in(int64_t size, int64_t block) { return (size + block - 1) / block; }

// One step behind the codes; nothing if blocks do not follow it.
class AfterStep {
 public:
  AfterStep(Coded coded, Dims dims, DType dtype)
      : coded_(std::move(coded)), dims_(std::move(dims)), dtype_(dtype) {}

  std::optional<Coded> operator()(const SliceStep& slice) {
    const int64_t block = coded_.block.at(slice.axis), end = slice.begin + slice.size;
    if (slice.begin % block != 0 || (end % block != 0 && end != dims_.at(slice.axis)))
      return std::nullopt;
    return both(slice, SliceStep{slice.axis, slice.begin / block, blocks_in(slice.size, block)});
  }
  std::optional<Coded> operator()(const PermuteStep& permute) {
    Dims block;
    for (const int64_t axis : permute.axes) block.push_back(coded_.block.at(axis));
    coded_.block = std::move(block);
    return both(permute, permute);
  }
  // Axes of size 1 may come and go.
  std::optional<Coded> operator()(const ReshapeStep& reshape) {
    Dims block(reshape.dims.size(), 1), scales(reshape.dims.size(), 1);
    int64_t to = 0;
    for (int64_t from = 0; from < dims_.rank(); ++from) {
      if (dims_.at(from) == 1) continue;
      while (to < reshape.dims.rank() && reshape.dims.at(to) == 1) ++to;
      if (to == reshape.dims.rank() || reshape.dims.at(to) != dims_.at(from)) return std::nullopt;
      block.at(to) = coded_.block.at(from);
      scales.at(to++) = blocks_in(dims_.at(from), coded_.block.at(from));
    }
    coded_.block = std::move(block);
    return both(reshape, ReshapeStep{std::move(scales)});
  }
  // The last cast is the only one that rounds.
  std::optional<Coded> operator()(const CastStep& cast) {
    if (cast.dtype != dtype_ && cast.dtype != DType::f32) return std::nullopt;
    return std::move(coded_);
  }
  template <
      OneOf<ScaleStep, DequantStep, UnpackStep, CenterStep, RemainderStep, LutStep, UnblockStep>
          StepT>
  std::optional<Coded> operator()(const StepT&) {
    return std::nullopt;
  }

 private:
  std::optional<Coded> both(ViewStep of_codes, ViewStep of_scales) {
    coded_.codes = then(std::move(coded_.codes), std::move(of_codes));
    coded_.scales = then(std::move(coded_.scales), std::move(of_scales));
    return std::move(coded_);
  }

  Coded coded_;
  Dims dims_;
  DType dtype_;
};

std::optional<Coded> coded_in(const WeightView& view, DType dtype);

// The first steps of a view of one tensor: up to the one that multiplies by scales.
std::optional<Coded> decoded_first(const WeightView& view, size_t& steps) {
  WeightView codes{view.source, view.source_type, {}};
  bool unpacked = false;
  for (steps = 0; steps < view.steps.size(); ++steps) {
    const ViewStep& step = view.steps[steps];
    if (const auto* dequant = std::get_if<DequantStep>(&step)) {
      ++steps;
      if (!unpacked || !dequant->offset.empty()) return std::nullopt;
      return Coded{std::move(codes), then(dequant->scale.front(), CastStep{DType::f32}),
                   dequant->block};
    }
    const auto* unpack = std::get_if<UnpackStep>(&step);
    if (unpack && unpack->packing != Packing::i4_excess8) return std::nullopt;
    unpacked = unpacked || unpack;
    codes.steps.push_back(step);
  }
  return std::nullopt;
}

std::optional<Coded> joined(const ConcatSource& concat, DType dtype) {
  std::vector<WeightView> codes, scales;
  Dims block;
  for (const WeightView& part : concat.parts) {
    std::optional<Coded> coded = coded_in(part, dtype);
    if (!coded || (!codes.empty() && coded->block != block)) return std::nullopt;
    const auto type = view_type(part);
    const bool is_last = &part == &concat.parts.back();
    block = coded->block;
    if (!type || (!is_last && type->dims.at(concat.axis) % block.at(concat.axis) != 0))
      return std::nullopt;
    codes.push_back(std::move(coded->codes));
    scales.push_back(std::move(coded->scales));
  }
  return Coded{concat_view(concat.axis, std::move(codes)),
               concat_view(concat.axis, std::move(scales)), std::move(block)};
}

// `dtype` is the element type of the whole view.
std::optional<Coded> coded_in(const WeightView& view, DType dtype) {
  size_t steps = 0;
  const auto* concat = std::get_if<ConcatSource>(&view.source);
  std::optional<Coded> coded = concat ? joined(*concat, dtype) : decoded_first(view, steps);
  for (; coded && steps < view.steps.size(); ++steps) {
    const auto type = view_type(coded->codes);
    if (!type) return std::nullopt;
    coded = std::visit(AfterStep(std::move(*coded), type->dims, dtype), view.steps[steps]);
  }
  return coded;
}

}  // namespace

std::optional<StoredCodes> stored_codes(const WeightView& view) {
  const auto type = view_type(view);
  if (!type) return std::nullopt;
  std::optional<Coded> coded = coded_in(view, type->dtype);
  if (!coded) return std::nullopt;
  constexpr int64_t kBits = 4;
  return StoredCodes{std::move(coded->codes),
                     std::move(coded->scales),
                     {kBits, std::move(coded->block), false, true}};
}

bool decodes_stored(const WeightView& view) {
  if (const auto* concat = std::get_if<ConcatSource>(&view.source))
    if (std::any_of(concat->parts.begin(), concat->parts.end(), decodes_stored)) return true;
  return std::any_of(view.steps.begin(), view.steps.end(), [](const ViewStep& step) {
    return std::holds_alternative<DequantStep>(step) || std::holds_alternative<LutStep>(step) ||
           std::holds_alternative<UnblockStep>(step);
  });
}

namespace {

constexpr std::array<int64_t, 2> kAffineBits = {4, 8};
constexpr std::array<int64_t, 6> kPaletteBits = {1, 2, 3, 4, 6, 8};
constexpr std::array<int64_t, 3> kBlocks = {32, 64, 128};
constexpr int64_t kDefaultBlock = 32, kDefaultGroup = 16;
constexpr std::array kBlockForms = {BlockType::q8_0, BlockType::q4_0, BlockType::mxfp4};
constexpr std::array<std::string_view, 20> kKnown = {
    "float",    "int8",     "int8:tensor", "int8:expert", "int8:32",  "int8:64",  "int8:128",
    "int4:32",  "int4:64",  "int4:128",    "int8-lut",    "int6-lut", "int4-lut", "int3-lut",
    "int2-lut", "int1-lut", "copy",        "q8_0",        "q4_0",     "mxfp4"};

template <size_t N>
std::optional<int64_t> one_of(std::string_view text, const std::array<int64_t, N>& known) {
  const auto value = parse_count(text);
  if (!value || std::find(known.begin(), known.end(), *value) == known.end()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool set_scope(std::string_view word, AffineForm& form) {
  if (const auto block = one_of(word, kBlocks)) {
    form.scope = ScaleScope::block;
    form.block = *block;
    return true;
  }
  const auto scope = parse_enum<ScaleScope>(word);
  if (!scope || *scope == ScaleScope::block) return false;
  form.scope = *scope;
  form.block = 0;
  return true;
}

// `words` are those between colons, the first one "int8" or "int4".
std::optional<WeightForm> affine_form(std::vector<std::string_view> words) {
  const auto bits = one_of(words[0].substr(3), kAffineBits);
  if (!bits) return std::nullopt;
  AffineForm form{.bits = *bits};
  if (*bits == 4) {
    form.scope = ScaleScope::block;
    form.block = kDefaultBlock;
  }
  form.zero_point = words.size() > 1 && words.back() == "zero";
  if (form.zero_point) words.pop_back();
  if (words.size() > 2 || (words.size() == 2 && !set_scope(words[1], form))) return std::nullopt;
  return form;
}

// The first word is "int4-lut".
std::optional<WeightForm> palette_form(const std::vector<std::string_view>& words) {
  const std::string_view name = words[0];
  const auto bits = one_of(name.substr(3, name.size() - 7), kPaletteBits);
  if (!bits || words.size() > 2) return std::nullopt;
  PaletteForm form{*bits, kDefaultGroup};
  if (words.size() == 1) return form;
  if (words[1] == "tensor") return PaletteForm{*bits, 0};
  const auto rows = words[1].starts_with('g') ? parse_count(words[1].substr(1)) : std::nullopt;
  if (!rows) return std::nullopt;
  form.rows = *rows;
  return form;
}

std::optional<WeightForm> find_form(std::string_view text) {
  if (text == "float") return FloatForm{};
  if (text == "copy") return CopyForm{};
  for (const BlockType type : kBlockForms)
    if (text == enum_name(type)) return BlockForm{type};
  if (const auto dtype = parse_dtype(text)) {
    if (!is_float(*dtype)) return std::nullopt;
    return FloatForm{*dtype};
  }
  const std::vector<std::string_view> words = split(text, ':');
  if (!words[0].starts_with("int")) return std::nullopt;
  return words[0].ends_with("-lut") ? palette_form(words) : affine_form(words);
}

struct PrintForm {
  std::string operator()(const FloatForm& form) const {
    return std::string(form.dtype ? dtype_name(*form.dtype) : "float");
  }
  std::string operator()(const AffineForm& form) const {
    std::string scope;
    if (form.scope == ScaleScope::block)
      scope = fmt::format(":{}", form.block);
    else if (form.scope != ScaleScope::row || form.bits == 4)
      scope = fmt::format(":{}", enum_name(form.scope));
    return fmt::format("int{}{}{}", form.bits, scope, form.zero_point ? ":zero" : "");
  }
  std::string operator()(const PaletteForm& form) const {
    const std::string scope = form.rows == 0 ? "tensor" : fmt::format("g{}", form.rows);
    return fmt::format("int{}-lut:{}", form.bits, scope);
  }
  std::string operator()(const CopyForm&) const { return "copy"; }
  std::string operator()(const BlockForm& form) const { return std::string(enum_name(form.type)); }
};

// ---- Encodings ---------------------------------------------------------------------------------

// Divisors of the rows that a group of them could have: those up to 64, which targets take.
std::vector<int64_t> group_sizes(int64_t rows) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= std::min<int64_t>(rows, 64); ++size)
    if (rows % size == 0) sizes.push_back(size);
  return sizes;
}

struct EncodingOf {
  const EncodedMatrix& matrix;

  Result<Encoding> operator()(const FloatForm&) const { return PlainEncoding{}; }
  Result<Encoding> operator()(const CopyForm&) const { return PlainEncoding{}; }
  Result<Encoding> operator()(const BlockForm& form) const {
    return fail("weights.form", fmt::format("no graph has blocks of {}", enum_name(form.type)),
                "give int4:32 or int8:32, or export for a target of GGUF files",
                {.tensor = matrix.name});
  }
  Result<Encoding> operator()(const AffineForm& form) const {
    AffineEncoding affine{form.bits, matrix.type.dims, form.zero_point};
    if (form.scope == ScaleScope::row || form.scope == ScaleScope::block) affine.block.at(0) = 1;
    if (form.scope == ScaleScope::expert)
      affine.block.at(matrix.expert_axis) /= std::max<int64_t>(matrix.experts, 1);
    if (form.scope != ScaleScope::block) return affine;
    MOEC_TRY(check_block(form.block));
    affine.block.at(1) = form.block;
    return affine;
  }
  Result<Encoding> operator()(const PaletteForm& form) const {
    PaletteEncoding palette{form.bits, matrix.type.dims};
    if (form.rows == 0) return palette;
    const int64_t rows = matrix.type.dims.at(0);
    if (rows % form.rows == 0) {
      palette.block.at(0) = form.rows;
      return palette;
    }
    return fail("weights.group",
                fmt::format("the {} output rows of {} do not divide into groups of {}", rows,
                            matrix.name, form.rows),
                fmt::format("give int{}-lut:tensor, or :gN for this role with N one of {}",
                            form.bits, fmt::join(group_sizes(rows), ", ")),
                {.tensor = matrix.name});
  }

 private:
  Status check_block(int64_t block) const {
    const int64_t inputs = matrix.type.dims.at(1);
    if (matrix.type.rank() == 2 || inputs % block == 0) return {};
    return fail("weights.block",
                fmt::format("the {} inputs of {} do not divide into blocks of {}", inputs,
                            matrix.name, block),
                "give this role a form without blocks, or --form matmul", {.tensor = matrix.name});
  }
};

}  // namespace

Result<WeightForm> parse_weight_form(std::string_view text) {
  if (auto form = find_form(text)) return *form;
  const std::string_view name = text.substr(0, text.find(':'));
  return fail("weights.form",
              fmt::format("there is no weight form '{}'{}", text, did_you_mean(name, kKnown)),
              fmt::format("the forms are {}; int8 and int4 take :zero behind them, tables take :gN "
                          "or :tensor",
                          fmt::join(kKnown, ", ")));
}

std::string to_string(const WeightForm& form) { return std::visit(PrintForm{}, form); }

Result<Encoding> encoding_of(const WeightForm& form, const EncodedMatrix& matrix) {
  return std::visit(EncodingOf{matrix}, form);
}

bool WeightForms::all_float() const {
  return is_float(base) && std::all_of(by_source.begin(), by_source.end(),
                                       [](const auto& entry) { return is_float(entry.second); });
}

const WeightForm& WeightForms::of_source(std::string_view source) const {
  const auto found = by_source.find(source);
  return found == by_source.end() ? base : found->second;
}

std::string to_string(const WeightForms& forms) {
  std::string text = to_string(forms.base);
  for (const auto& [source, form] : forms.by_source)
    text += fmt::format(",{}={}", source, to_string(form));
  return text;
}

std::optional<WeightForms> parse_weight_forms(std::string_view text) {
  const std::vector<std::string_view> items = split(text, ',');
  const auto base = find_form(items[0]);
  if (!base) return std::nullopt;
  WeightForms forms{*base, {}};
  for (size_t i = 1; i < items.size(); ++i) {
    const size_t equals = items[i].rfind('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto form = find_form(items[i].substr(equals + 1));
    if (!form) return std::nullopt;
    forms.by_source.emplace(items[i].substr(0, equals), *form);
  }
  return forms;
}

}  // namespace moec
