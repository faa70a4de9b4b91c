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

constexpr std::array<int64_t, 2> kAffineBits = {4, 8};
constexpr std::array<int64_t, 6> kPaletteBits = {1, 2, 3, 4, 6, 8};
constexpr std::array<int64_t, 4> kBlocks = {32, 64, 128, 256};
constexpr int64_t kDefaultBlock = 32, kDefaultGroup = 16;
constexpr std::array kBlockForms = {BlockType::q8_0, BlockType::q4_0, BlockType::mxfp4,
                                    BlockType::tq1_0, BlockType::tq2_0};
constexpr std::array<std::string_view, 25> kKnown = {
    "float",    "int8",     "int8:tensor", "int8:expert", "int8:32",  "int8:64",  "int8:128",
    "int8:256", "int4:row", "int4:32",     "int4:64",     "int4:128", "int4:256", "int8-lut",
    "int6-lut", "int4-lut", "int3-lut",    "int2-lut",    "int1-lut", "copy",     "q8_0",
    "q4_0",     "mxfp4",    "tq1_0",       "tq2_0"};

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

// A number selects blocks of this size; a word selects another scope.
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

// `words` are the colon-separated parts of the text; the first is "int8" or "int4".
std::optional<WeightForm> affine_form(std::vector<std::string_view> words) {
  const auto bits = one_of(words[0].substr(3), kAffineBits);
  if (!bits) return std::nullopt;
  AffineForm form{.bits = *bits};
  if (*bits == 4) {
    form.scope = ScaleScope::block;
    form.block = kDefaultBlock;
  }
  // The scope before "zero" is optional, so "zero" is expected as the last word.
  form.zero_point = words.size() > 1 && words.back() == "zero";
  if (form.zero_point) words.pop_back();
  if (words.size() > 2 || (words.size() == 2 && !set_scope(words[1], form))) return std::nullopt;
  return form;
}

// The first word is "int4-lut", or the same with another number of bits.
std::optional<WeightForm> palette_form(const std::vector<std::string_view>& words) {
  const std::string_view name = words[0];
  // 7 is the length of "int" and "-lut".
  const auto bits = one_of(name.substr(3, name.size() - 7), kPaletteBits);
  if (!bits || words.size() > 2) return std::nullopt;
  PaletteForm form{*bits, kDefaultGroup};
  if (words.size() == 1) return form;
  if (words[1] == "tensor") return PaletteForm{*bits, 0};
  // The prefix g distinguishes the number of rows from a block size.
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
    // Weights are floats, so integer types and the stored type f8_e4m3 are not forms.
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
    // affine_form() uses a scale per row for int8 without a scope, so the text omits this scope.
    if (form.scope == ScaleScope::block)
      scope = fmt::format(":{}", form.block);
    else if (form.scope != ScaleScope::row || form.bits == 4)
      scope = fmt::format(":{}", enum_name(form.scope));
    // The parts have the order that affine_form() parses.
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

// Possible group sizes: the divisors of `rows` up to 64, the maximum that a target supports.
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
    return fail("weights.form",
                fmt::format("graphs cannot contain blocks of {}", enum_name(form.type)),
                "use int4:32 or int8:32, or export to a GGUF target", {.tensor = matrix.name});
  }
  Result<Encoding> operator()(const AffineForm& form) const {
    AffineEncoding affine{form.bits, matrix.type.dims, form.zero_point};
    // A scale per row or per block belongs to one output.
    if (form.scope == ScaleScope::row || form.scope == ScaleScope::block) affine.block.at(0) = 1;
    if (form.scope == ScaleScope::expert)
      // Experts lie along expert_axis, so the block has this axis divided by their number.
      affine.block.at(matrix.expert_axis) /= std::max<int64_t>(matrix.experts, 1);
    if (form.scope != ScaleScope::block) return affine;
    MOEC_TRY(check_block(form.block));
    affine.block.at(1) = form.block;
    return affine;
  }
  Result<Encoding> operator()(const PaletteForm& form) const {
    PaletteEncoding palette{form.bits, matrix.type.dims};
    // If form.rows is 0, one table covers the whole tensor.
    if (form.rows == 0) return palette;
    const int64_t rows = matrix.type.dims.at(0);
    if (rows % form.rows == 0) {
      palette.block.at(0) = form.rows;
      return palette;
    }
    return fail("weights.group",
                fmt::format("the {} output rows of {} are not divisible into groups of {}", rows,
                            matrix.name, form.rows),
                fmt::format("use int{}-lut:tensor, or :gN for this role with N one of {}",
                            form.bits, fmt::join(group_sizes(rows), ", ")),
                {.tensor = matrix.name});
  }

 private:
  Status check_block(int64_t block) const {
    const int64_t inputs = matrix.type.dims.at(1);
    // In a matmul, a partial last block is padded; a convolution does not support it.
    if (matrix.type.rank() == 2 || inputs % block == 0) return {};
    return fail("weights.block",
                fmt::format("the {} inputs of {} are not divisible into blocks of {}", inputs,
                            matrix.name, block),
                "use a form without blocks for this role, or pass --form matmul",
                {.tensor = matrix.name});
  }
};

}  // namespace

Result<WeightForm> parse_weight_form(std::string_view text) {
  if (auto form = find_form(text)) return *form;
  // Suggests names only, because the suffix can be valid for another form.
  const std::string_view name = text.substr(0, text.find(':'));
  return fail("weights.form",
              fmt::format("there is no weight form '{}'{}", text, did_you_mean(name, kKnown)),
              fmt::format("use one of {}; append :zero to int8 and int4 forms, :gN or :tensor to "
                          "tables",
                          fmt::join(kKnown, ", ")));
}

std::string to_string(const WeightForm& form) { return std::visit(PrintForm{}, form); }

Result<Encoding> encoding_of(const WeightForm& form, const EncodedMatrix& matrix) {
  return std::visit(EncodingOf{matrix}, form);
}

bool WeightForms::all_float() const {
  // `base` applies to sources without an entry in by_source.
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
    // Splits at the last '=', because a source can contain one.
    const size_t equals = items[i].rfind('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto form = find_form(items[i].substr(equals + 1));
    if (!form) return std::nullopt;
    forms.by_source.emplace(items[i].substr(0, equals), *form);
  }
  return forms;
}

}  // namespace moec
