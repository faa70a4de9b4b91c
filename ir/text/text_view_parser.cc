// Parses the text of types, weight views and encodings.
#include <fmt/format.h>

#include <array>

#include "ir/text/text_cursor.h"

namespace moec {
namespace {

Result<std::vector<int64_t>> parse_integers(TextCursor& cursor, char close) {
  std::vector<int64_t> numbers;
  // parse_list() consumes the closing mark.
  MOEC_TRY(parse_list(cursor, close, [&]() -> Status {
    MOEC_ASSIGN(int64_t number, cursor.integer());
    numbers.push_back(number);
    return {};
  }));
  return numbers;
}

// ---- Sources -----------------------------------------------------------------------------------

// Checks the syntax only; view_type() checks the source and its type.
Result<WeightView> typed(TextCursor& cursor, ViewSource source) {
  MOEC_TRY(cursor.expect(':'));
  MOEC_ASSIGN(Type type, parse_type_at(cursor));
  return WeightView{std::move(source), std::move(type), {}};
}

Result<WeightView> parse_splat(TextCursor& cursor) {
  MOEC_ASSIGN(double value, cursor.real());
  MOEC_TRY(cursor.expect(')'));
  return typed(cursor, SplatSource{value});
}

Result<WeightView> parse_seeded(TextCursor& cursor) {
  MOEC_ASSIGN(uint64_t seed, cursor.unsigned_integer());
  MOEC_TRY(cursor.expect(')'));
  return typed(cursor, SeededSource{seed});
}

Result<WeightView> parse_concat(TextCursor& cursor, size_t depth) {
  MOEC_ASSIGN(int64_t axis, cursor.integer());
  MOEC_TRY(cursor.expect(';'));
  std::vector<WeightView> parts;
  // Nested views count towards the limit of depth.
  MOEC_TRY(parse_list(cursor, ')', [&]() -> Status {
    MOEC_ASSIGN(WeightView part, parse_view_at(cursor, depth + 1));
    parts.push_back(std::move(part));
    return {};
  }));
  // concat_view() computes the type, because the text has only the types of the parts.
  return concat_view(axis, std::move(parts));
}

Result<WeightView> parse_source(TextCursor& cursor, size_t depth) {
  if (cursor.peek().kind == TokenKind::tensor)
    return typed(cursor, TensorSource{cursor.take().text});
  static constexpr std::array<std::string_view, 3> kSources = {"splat", "seeded", "concat"};
  static_assert(kSources.size() + 1 == std::variant_size_v<ViewSource>);  // and the tensor above
  MOEC_ASSIGN(size_t source, cursor.one_of("a @tensor or a source", kSources));
  MOEC_TRY(cursor.expect('('));
  if (source == 0) return parse_splat(cursor);
  if (source == 1) return parse_seeded(cursor);
  return parse_concat(cursor, depth);
}

// ---- Steps, after their opening parenthesis ----------------------------------------------------

Result<ViewStep> parse_slice(TextCursor& cursor) {
  SliceStep step;
  MOEC_ASSIGN(step.axis, cursor.integer());
  MOEC_TRY(cursor.expect(','));
  MOEC_ASSIGN(step.begin, cursor.integer());
  MOEC_TRY(cursor.expect(','));
  MOEC_ASSIGN(step.size, cursor.integer());
  MOEC_TRY(cursor.expect(')'));
  return step;
}

Result<ViewStep> parse_cast(TextCursor& cursor) {
  MOEC_ASSIGN(DType dtype, parse_dtype_at(cursor));
  MOEC_TRY(cursor.expect(')'));
  return CastStep{dtype};
}

Result<ViewStep> parse_scale(TextCursor& cursor) {
  MOEC_ASSIGN(double factor, cursor.real());
  MOEC_TRY(cursor.expect(')'));
  return ScaleStep{factor};
}

Result<ViewStep> parse_dequant(TextCursor& cursor, size_t depth) {
  DequantStep step;
  MOEC_ASSIGN(step.block, parse_integers(cursor, ';'));
  MOEC_ASSIGN(WeightView scale, parse_view_at(cursor, depth + 1));
  // `scale` is a vector with one entry, because WeightView is incomplete inside its steps.
  step.scale.push_back(std::move(scale));
  if (cursor.accept(',')) {
    MOEC_ASSIGN(WeightView offset, parse_view_at(cursor, depth + 1));
    step.offset.push_back(std::move(offset));
  }
  MOEC_TRY(cursor.expect(')'));
  return step;
}

// The only parameter of a step, and the closing parenthesis.
Result<std::vector<WeightView>> parse_parameter(TextCursor& cursor, size_t depth) {
  MOEC_ASSIGN(WeightView view, parse_view_at(cursor, depth + 1));
  MOEC_TRY(cursor.expect(')'));
  return std::vector{std::move(view)};
}

Result<ViewStep> parse_lut(TextCursor& cursor, size_t depth) {
  LutStep step;
  MOEC_ASSIGN(step.block, parse_integers(cursor, ';'));
  MOEC_ASSIGN(step.table, parse_parameter(cursor, depth));
  return step;
}

Result<ViewStep> parse_blockwise(TextCursor& cursor, BlockwiseOp op, size_t depth) {
  BlockwiseStep step{op, {}, {}};
  MOEC_ASSIGN(step.block, parse_integers(cursor, ';'));
  MOEC_ASSIGN(step.operand, parse_parameter(cursor, depth));
  return step;
}

Result<ViewStep> parse_gather(TextCursor& cursor, size_t depth) {
  GatherStep step;
  MOEC_ASSIGN(step.axis, cursor.integer());
  MOEC_TRY(cursor.expect(';'));
  MOEC_ASSIGN(step.indices, parse_parameter(cursor, depth));
  return step;
}

Result<ViewStep> parse_unpack(TextCursor& cursor) {
  static constexpr auto kPackings = enum_names(Packing{});
  MOEC_ASSIGN(size_t packing, cursor.one_of("a packing", kPackings));
  MOEC_TRY(cursor.expect(')'));
  return UnpackStep{static_cast<Packing>(packing)};
}

Result<ViewStep> parse_unblock(TextCursor& cursor) {
  static constexpr auto kTypes = enum_names(BlockType{});
  static constexpr auto kParts = enum_names(UnblockPart{});
  MOEC_ASSIGN(const size_t type, cursor.one_of("a block type", kTypes));
  UnblockStep step{static_cast<BlockType>(type)};
  if (cursor.accept(',')) {
    MOEC_ASSIGN(const size_t part, cursor.one_of("a part of blocks", kParts));
    step.part = static_cast<UnblockPart>(part);
  }
  MOEC_TRY(cursor.expect(')'));
  return step;
}

Result<ViewStep> parse_center(TextCursor& cursor) {
  MOEC_TRY(cursor.expect(')'));
  return CenterStep{};
}

Result<ViewStep> parse_map(TextCursor& cursor) {
  static constexpr auto kFunctions = enum_names(MapFn{});
  MOEC_ASSIGN(const size_t function, cursor.one_of("a function", kFunctions));
  MOEC_TRY(cursor.expect(')'));
  return MapStep{static_cast<MapFn>(function)};
}

Result<ViewStep> parse_remainder(TextCursor& cursor) {
  MOEC_ASSIGN(DType dtype, parse_dtype_at(cursor));
  MOEC_TRY(cursor.expect(')'));
  return RemainderStep{dtype};
}

Result<ViewStep> parse_step(TextCursor& cursor, size_t depth) {
  static constexpr std::array<std::string_view, 15> kSteps = {
      "slice",     "reshape", "permute", "cast", "scale",  "dequant", "unpack", "center",
      "remainder", "lut",     "unblock", "add",  "divide", "gather",  "map"};
  // "add" and "divide" are one kind of step.
  static_assert(kSteps.size() == std::variant_size_v<ViewStep> + 1);
  MOEC_ASSIGN(size_t step, cursor.one_of("a view step", kSteps));
  MOEC_TRY(cursor.expect('('));
  // The numbers are positions in kSteps. Position 0 is "slice".
  if (step == 0) return parse_slice(cursor);
  if (step == 3) return parse_cast(cursor);
  if (step == 4) return parse_scale(cursor);
  if (step == 5) return parse_dequant(cursor, depth);
  if (step == 6) return parse_unpack(cursor);
  if (step == 7) return parse_center(cursor);
  if (step == 8) return parse_remainder(cursor);
  if (step == 9) return parse_lut(cursor, depth);
  if (step == 10) return parse_unblock(cursor);
  if (step == 11) return parse_blockwise(cursor, BlockwiseOp::add, depth);
  if (step == 12) return parse_blockwise(cursor, BlockwiseOp::divide, depth);
  if (step == 13) return parse_gather(cursor, depth);
  if (step == 14) return parse_map(cursor);
  MOEC_ASSIGN(auto numbers, parse_integers(cursor, ')'));
  if (step == 1) return ReshapeStep{std::move(numbers)};
  return PermuteStep{std::move(numbers)};
}

// ---- Encodings, after their opening parenthesis ------------------------------------------------

Result<Encoding> parse_affine(TextCursor& cursor) {
  AffineEncoding affine;
  MOEC_ASSIGN(affine.bits, cursor.integer());
  MOEC_TRY(cursor.expect(';'));
  // The list ends at ';' or ')', but parse_list() supports only one closing mark.
  do {
    MOEC_ASSIGN(const int64_t extent, cursor.integer());
    affine.block.push_back(extent);
  } while (cursor.accept(','));
  // The words may come in either order, although the printer writes "zero" first.
  while (cursor.accept(';')) {
    static constexpr std::array<std::string_view, 2> kWords = {"zero", "copied"};
    MOEC_ASSIGN(const size_t word, cursor.one_of("'zero' or 'copied'", kWords));
    (word == 0 ? affine.zero_point : affine.copied) = true;
  }
  MOEC_TRY(cursor.expect(')'));
  return affine;
}

Result<Encoding> parse_palette(TextCursor& cursor) {
  PaletteEncoding palette;
  MOEC_ASSIGN(palette.bits, cursor.integer());
  MOEC_TRY(cursor.expect(';'));
  MOEC_ASSIGN(palette.block, parse_integers(cursor, ')'));
  return palette;
}

// Requires that the parsed part is the whole text.
template <class T, class F>
Result<T> parse_whole(std::string_view text, F&& parse) {
  TextCursor cursor(text, {});
  MOEC_ASSIGN(T parsed, parse(cursor));
  // Without this check, trailing text would be ignored silently.
  MOEC_TRY(cursor.expect_end());
  return parsed;
}

}  // namespace

Result<DType> parse_dtype_at(TextCursor& cursor) {
  static constexpr auto kNames = enum_names(DType{});
  MOEC_ASSIGN(size_t index, cursor.one_of("an element type", kNames));
  return static_cast<DType>(index);
}

Result<Layout> parse_layout_at(TextCursor& cursor) {
  static constexpr auto kNames = enum_names(Layout{});
  MOEC_ASSIGN(size_t index, cursor.one_of("a layout", kNames));
  return static_cast<Layout>(index);
}

Result<Type> parse_type_at(TextCursor& cursor) {
  Type type;
  MOEC_ASSIGN(type.dtype, parse_dtype_at(cursor));
  MOEC_TRY(cursor.expect('['));
  MOEC_ASSIGN(type.dims, parse_integers(cursor, ']'));
  // The layout is optional, because most types are plain.
  if (!cursor.accept('{')) return type;
  MOEC_ASSIGN(type.layout, parse_layout_at(cursor));
  MOEC_TRY(cursor.expect('}'));
  return type;
}

Result<WeightView> parse_view_at(TextCursor& cursor, size_t depth) {
  // The parser is recursive, so nested views of a hostile text could overflow the stack.
  if (depth >= kMaxViewNesting)
    return cursor.fail_at(cursor.peek(), "text.too_deep",
                          fmt::format("views nest deeper than {}", kMaxViewNesting));
  MOEC_ASSIGN(WeightView view, parse_source(cursor, depth));
  while (cursor.accept('|')) {
    MOEC_ASSIGN(ViewStep step, parse_step(cursor, depth));
    view.steps.push_back(std::move(step));
  }
  return view;
}

Result<Encoding> parse_encoding_at(TextCursor& cursor) {
  static constexpr std::array<std::string_view, 3> kEncodings = {"plain", "affine", "palette"};
  static_assert(kEncodings.size() == std::variant_size_v<Encoding>);
  MOEC_ASSIGN(const size_t encoding, cursor.one_of("an encoding", kEncodings));
  if (encoding == 0) return PlainEncoding{};
  // A plain encoding has neither parentheses nor attributes.
  MOEC_TRY(cursor.expect('('));
  return encoding == 1 ? parse_affine(cursor) : parse_palette(cursor);
}

Result<WeightView> parse_view(std::string_view text) {
  return parse_whole<WeightView>(text, [](TextCursor& cursor) { return parse_view_at(cursor); });
}

Result<Type> parse_type(std::string_view text) { return parse_whole<Type>(text, parse_type_at); }

}  // namespace moec
