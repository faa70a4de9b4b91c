// A weight is a view: a source and a list of steps from a closed set, with a text form. A view
// describes the checkpoint bytes of a weight and their transformation. It never reads them; only
// backends/weights reads payload.
//
//   @model.layers.0.mlp.gate.weight:bf16[16,128] | slice(0, 0, 8) | cast(f16)
//   concat(0; @a:bf16[4,8], @b:bf16[4,8]) | permute(1, 0)
//   splat(1):f32[8]          seeded(7):f32[4,4] | scale(0.05)
//   @b:u8[8,16] | unpack(f4_e2m1) | dequant(1, 32; @s:u8[8,1] | unpack(f8_e8m0))
//   @q:u8[8,144] | unblock(q4_k)
//   @q:u8[8,144] | unblock(q4_k, scales)
//   @c:u8[64] | unpack(u4) | reshape(8, 16) | lut(4, 16; @t:f16[2,1,16]) | cast(f16)
//   @q:i32[8,16] | unpack(u4_i32) | dequant(1, 32; @s:f32[8,4]) | add(1, 32; @b:f32[8,4])
//   @s:f16[8,4] | gather(1; @g:i32[128])
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/graph/block_type.h"
#include "ir/graph/type.h"

namespace moec {

struct WeightView;

// A named tensor of the plan's weight table.
struct TensorSource {
  std::string name;
  bool operator==(const TensorSource&) const = default;
};

// Every element has this value. Reads no file.
struct SplatSource {
  double value = 0;
  bool operator==(const SplatSource&) const = default;
};

// Element i is uniform in [-1, 1), a pure function of (seed, i): see seeded_element(). Reads no
// file.
struct SeededSource {
  uint64_t seed = 0;
  bool operator==(const SeededSource&) const = default;
};

// The parts joined along an axis. Their element types and all other sizes must be equal.
struct ConcatSource {
  int64_t axis = 0;
  std::vector<WeightView> parts;
  bool operator==(const ConcatSource&) const = default;
};

using ViewSource = std::variant<TensorSource, SplatSource, SeededSource, ConcatSource>;

struct SliceStep {
  int64_t axis = 0, begin = 0, size = 0;
  bool operator==(const SliceStep&) const = default;
};
struct ReshapeStep {
  Dims dims;
  bool operator==(const ReshapeStep&) const = default;
};
// Result axis i is source axis axes[i].
struct PermuteStep {
  std::vector<int64_t> axes;
  bool operator==(const PermuteStep&) const = default;
};
// Rounds to nearest, ties to even. A finite value that overflows becomes infinite, and the reader
// counts it.
struct CastStep {
  DType dtype = DType::f32;
  bool operator==(const CastStep&) const = default;
};
// Multiplies in f32 and rounds to the element type.
struct ScaleStep {
  double factor = 1;
  bool operator==(const ScaleStep&) const = default;
};
// (element[i…] − offset[i/block…]) * scale[i/block…] in f32; the result is f32. One scale, and one
// offset if there are offsets, per block of the tensor; the last blocks may be partial.
struct DequantStep {
  Dims block;
  std::vector<WeightView> scale;   // exactly one; a vector: WeightView is incomplete here
  std::vector<WeightView> offset;  // at most one, with the sizes of the scale
  bool operator==(const DequantStep&) const = default;
};

// table[i/block…][element[i…]]; the result is f32. One table per block of the tensor, along the
// last axis of `table`; the last blocks may be partial. The elements are indices into the table.
struct LutStep {
  Dims block;
  std::vector<WeightView> table;  // exactly one; a vector as in DequantStep
  bool operator==(const LutStep&) const = default;
};

// element + operand[i/block…], or element / operand[i/block…], in f32; the result is f32. One
// operand per block of the tensor; the last blocks may be partial.
enum class BlockwiseOp : uint8_t { add, divide };
constexpr auto enum_names(BlockwiseOp) { return name_table<BlockwiseOp>({"add", "divide"}); }
struct BlockwiseStep {
  BlockwiseOp op = BlockwiseOp::add;
  Dims block;
  std::vector<WeightView> operand;  // exactly one; a vector as in DequantStep
  bool operator==(const BlockwiseStep&) const = default;
};

// Element i along the axis is element indices[i] of the input along that axis. The indices are an
// i32 vector.
struct GatherStep {
  int64_t axis = 0;
  std::vector<WeightView> indices;  // exactly one; a vector as in DequantStep
  bool operator==(const GatherStep&) const = default;
};

// Low-bit numbers packed into the elements of a view; the first number is in the lowest bits,
// unless stated otherwise.
//   f4_e2m1     two in a u8: a sign, two bits of exponent, one of mantissa
//   i4_excess8  eight in an i32: each an integer from -8 to 7, with 8 added
//   f8_e8m0     one in a u8: a power of two, or NaN
//   u1 … u8     unsigned integers in u8; 3-bit and 6-bit integers cross byte boundaries
//   i4, i8      integers in two's complement in u8
//   u2_i32 …    unsigned integers in i32; 3-bit, 5-bit and 6-bit integers cross element boundaries
//   u4_awq      eight in an i32: unsigned, in the order 0, 2, 4, 6, 1, 3, 5, 7
//   u4_high     two in a u8: unsigned, the first in the highest bits
// Sources: OCP Microscaling Formats (MX) 1.0; the format pack-quantized of compressed-tensors; the
// blobs of Core ML's sub-byte types; the quantized layers of AutoGPTQ, MLX, AutoAWQ (GEMM) and
// bitsandbytes (4 bits).
enum class Packing : uint8_t {
  f4_e2m1,
  i4_excess8,
  f8_e8m0,
  u1,
  u2,
  u3,
  u4,
  u6,
  u8,
  i4,
  i8,
  u2_i32,
  u3_i32,
  u4_i32,
  u5_i32,
  u6_i32,
  u8_i32,
  u4_awq,
  u4_high
};
// The unit of a packing: each run of `elements` elements contains `numbers` numbers.
struct PackedRun {
  DType dtype = DType::u8;
  int64_t elements = 1, numbers = 1;
};
struct PackingFacts {
  std::string_view name;
  PackedRun run;
};
inline constexpr auto kPackings = enum_table<Packing, PackingFacts>({
    {"f4_e2m1", {DType::u8, 1, 2}},  {"i4_excess8", {DType::i32, 1, 8}},
    {"f8_e8m0", {DType::u8, 1, 1}},  {"u1", {DType::u8, 1, 8}},
    {"u2", {DType::u8, 1, 4}},       {"u3", {DType::u8, 3, 8}},
    {"u4", {DType::u8, 1, 2}},       {"u6", {DType::u8, 3, 4}},
    {"u8", {DType::u8, 1, 1}},       {"i4", {DType::u8, 1, 2}},
    {"i8", {DType::u8, 1, 1}},       {"u2_i32", {DType::i32, 1, 16}},
    {"u3_i32", {DType::i32, 3, 32}}, {"u4_i32", {DType::i32, 1, 8}},
    {"u5_i32", {DType::i32, 5, 32}}, {"u6_i32", {DType::i32, 3, 16}},
    {"u8_i32", {DType::i32, 1, 4}},  {"u4_awq", {DType::i32, 1, 8}},
    {"u4_high", {DType::u8, 1, 2}},
});
constexpr auto enum_names(Packing) { return row_names(kPackings); }
constexpr const PackedRun& packed_run(Packing packing) { return at(kPackings, packing).run; }
// Bits of a number; all numbers of a run have the same whole number of bits.
int number_bits(Packing packing);
// Number of complete numbers in the first `elements` elements.
int64_t unpacked_count(Packing packing, int64_t elements);

// Unpacks the elements along the last axis into their numbers; the result is f32.
struct UnpackStep {
  Packing packing = Packing::f4_e2m1;
  bool operator==(const UnpackStep&) const = default;
};

// The part to decode from blocks: the values, or the codes, scales or zeros that they are computed
// from (BlockFormat::codes in ir/graph/block_type.h).
enum class UnblockPart : uint8_t { values, codes, scales, zeros };
constexpr auto enum_names(UnblockPart) {
  return name_table<UnblockPart>({"values", "codes", "scales", "zeros"});
}

// Decodes the bytes along the last axis into the blocks' values, codes, scales or zeros; the result
// is f32. The bytes must be whole blocks of a type with BlockValues::decoded. Arithmetic matches
// ggml: f32, with each product and each difference rounded separately.
struct UnblockStep {
  BlockType type = BlockType::q4_0;
  UnblockPart part = UnblockPart::values;
  bool operator==(const UnblockStep&) const = default;
};

// Returns the number of values of the part per block. The type must have the part.
int64_t unblocked_count(const UnblockStep& step);

// Subtracts the median of the view's finite elements (the lower of two), in f32; the result is f32.
// Non-finite elements are unchanged. The view has at most kMaxCentered elements, because even a
// partial read reads all elements.
struct CenterStep {
  bool operator==(const CenterStep&) const = default;
};
inline constexpr int64_t kMaxCentered = 1 << 16;
// Rounding error of a cast to `dtype`: each element minus its rounded value, in f32. 0 if the
// rounded value is not finite.
struct RemainderStep {
  DType dtype = DType::f16;
  bool operator==(const RemainderStep&) const = default;
};

// Functions of single elements, for checkpoints that store a value in another form.
//   neg_exp    −e^x, of a logarithm: the rate of a decay
//   log_neg    ln(−x), the inverse of neg_exp
//   plus_one   x + 1, of the offset that a norm adds to 1
//   minus_one  x − 1, the inverse of plus_one
enum class MapFn : uint8_t { neg_exp, log_neg, plus_one, minus_one };
constexpr auto enum_names(MapFn) {
  return name_table<MapFn>({"neg_exp", "log_neg", "plus_one", "minus_one"});
}

// Applies a function to each element, in f64; the result is f32. A finite element whose result is
// infinite counts as an overflow.
struct MapStep {
  MapFn function = MapFn::neg_exp;
  bool operator==(const MapStep&) const = default;
};

using ViewStep = std::variant<SliceStep, ReshapeStep, PermuteStep, CastStep, ScaleStep, DequantStep,
                              UnpackStep, CenterStep, RemainderStep, LutStep, UnblockStep,
                              BlockwiseStep, GatherStep, MapStep>;

struct WeightView {
  ViewSource source;
  Type source_type;  // the type of the source; for concat, the joined type
  std::vector<ViewStep> steps;

  bool operator==(const WeightView&) const = default;
};

WeightView tensor_view(std::string name, Type type);
WeightView splat_view(double value, Type type);
WeightView seeded_view(uint64_t seed, Type type);
// The parts must satisfy ConcatSource; view_type() checks them.
WeightView concat_view(int64_t axis, std::vector<WeightView> parts);
// Appends a step. Drops a step that changes nothing. Merges a reshape of a reshape, a permute of a
// permute, and a cast of an exact widening.
WeightView then(WeightView view, ViewStep step);

// Returns the views that a step reads in addition to its input: scales, offsets, tables, operands
// and indices.
std::vector<const WeightView*> parameters_of(const ViewStep& step);
std::vector<WeightView*> parameters_of(ViewStep& step);

inline constexpr size_t kMaxViewNesting = 64;  // views within views

// Returns the type of a view's result. Errors for an ill-formed view: view.c1 … view.c17 of
// ir/OPS.md.
Result<Type> view_type(const WeightView& view);

std::string to_string(const WeightView& view);

// The value of element i of seeded(seed): splitmix64(seed + i), its top 24 bits scaled to [-1, 1).
float seeded_element(uint64_t seed, uint64_t index);

// Calls visit(tensor, type) for each tensor that the view reads, including those of
// parameters_of().
void for_each_tensor(const WeightView& view,
                     const std::function<void(const TensorSource&, const Type&)>& visit);

}  // namespace moec
