// A weight is a view: a source and a list of steps from a closed set, with a text form. A view
// describes which checkpoint bytes make up a weight and how they are transformed. It reads none of
// them; only backends/weights reads payload.
//
//   @model.layers.0.mlp.gate.weight:bf16[16,128] | slice(0, 0, 8) | cast(f16)
//   concat(0; @a:bf16[4,8], @b:bf16[4,8]) | permute(1, 0)
//   splat(1):f32[8]          seeded(7):f32[4,4] | scale(0.05)
//   @b:u8[8,16] | unpack(f4_e2m1) | dequant(1, 32; @s:u8[8,1] | unpack(f8_e8m0))
//   @q:u8[8,144] | unblock(q4_k)
//   @c:u8[64] | unpack(u4) | reshape(8, 16) | lut(4, 16; @t:f16[2,1,16]) | cast(f16)
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

// Every element has this value. Needs no file.
struct SplatSource {
  double value = 0;
  bool operator==(const SplatSource&) const = default;
};

// Element i is uniform in [-1, 1), a pure function of (seed, i): see seeded_element(). Needs no
// file.
struct SeededSource {
  uint64_t seed = 0;
  bool operator==(const SeededSource&) const = default;
};

// The parts joined along an axis; they agree in element type and in every other size.
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
// Round to nearest, ties to even; a finite value beyond the target's range becomes infinite and is
// counted by the reader.
struct CastStep {
  DType dtype = DType::f32;
  bool operator==(const CastStep&) const = default;
};
// Multiplied in f32, rounded to the element type.
struct ScaleStep {
  double factor = 1;
  bool operator==(const ScaleStep&) const = default;
};
// (element[i…] − offset[i/block…]) * scale[i/block…] in f32; the result is f32. One scale, and one
// offset if there are any, for each block of the tensor; the last blocks may be partial.
struct DequantStep {
  Dims block;
  std::vector<WeightView> scale;   // exactly one; a vector: WeightView is incomplete here
  std::vector<WeightView> offset;  // at most one, with the sizes of the scale
  bool operator==(const DequantStep&) const = default;
};

// table[i/block…][element[i…]]; the result is f32. One table for each block of the tensor, along
// the last axis of `table`; the last blocks may be partial. The elements are indices of the table.
struct LutStep {
  Dims block;
  std::vector<WeightView> table;  // exactly one; a vector as above
  bool operator==(const LutStep&) const = default;
};

// Numbers of a few bits packed into the elements of a view; the first one is in the lowest bits.
//   f4_e2m1     two in a u8: a sign, two bits of exponent, one of mantissa
//   i4_excess8  eight in an i32: each an integer from -8 to 7, with 8 added
//   f8_e8m0     one in a u8: a power of two, or NaN
//   u1 … u8     unsigned integers in u8; those of 3 and 6 bits cross bytes
//   i4, i8      integers in two's complement in u8
// Sources: OCP Microscaling Formats (MX) 1.0; the format pack-quantized of compressed-tensors; the
// blobs of Core ML's sub-byte types.
enum class Packing : uint8_t { f4_e2m1, i4_excess8, f8_e8m0, u1, u2, u3, u4, u6, u8, i4, i8 };
constexpr auto enum_names(Packing) {
  return name_table<Packing>(
      {"f4_e2m1", "i4_excess8", "f8_e8m0", "u1", "u2", "u3", "u4", "u6", "u8", "i4", "i8"});
}

// How a packing lies in its elements: each run of `elements` elements holds `numbers` numbers.
struct PackedRun {
  DType dtype = DType::u8;
  int64_t elements = 1, numbers = 1;
};
PackedRun packed_run(Packing packing);
// How many numbers are whole in the first `elements` elements.
int64_t unpacked_count(Packing packing, int64_t elements);

// Unpacks the elements along the last axis into their numbers; the result is f32.
struct UnpackStep {
  Packing packing = Packing::f4_e2m1;
  bool operator==(const UnpackStep&) const = default;
};

// Decodes the bytes along the last axis, which are whole blocks of a type that is decoded, into the
// blocks' elements; the result is f32. Arithmetic is that of GGUF's own readers: in f32, each
// product and each difference rounded by itself.
struct UnblockStep {
  BlockType type = BlockType::q4_0;
  bool operator==(const UnblockStep&) const = default;
};

// Each element less the median of the view's finite elements (the lower one of two), computed and
// delivered in f32; elements that are not finite stay. Of at most kMaxCentered elements, because
// each read of a part reads all of them.
struct CenterStep {
  bool operator==(const CenterStep&) const = default;
};
inline constexpr int64_t kMaxCentered = 1 << 16;
// What a cast to the type would lose: each element less its rounded value, in f32. 0 where the
// rounded value is not finite.
struct RemainderStep {
  DType dtype = DType::f16;
  bool operator==(const RemainderStep&) const = default;
};

using ViewStep = std::variant<SliceStep, ReshapeStep, PermuteStep, CastStep, ScaleStep, DequantStep,
                              UnpackStep, CenterStep, RemainderStep, LutStep, UnblockStep>;

struct WeightView {
  ViewSource source;
  Type source_type;  // what the source holds; for concat, the joined type
  std::vector<ViewStep> steps;

  bool operator==(const WeightView&) const = default;
};

WeightView tensor_view(std::string name, Type type);
WeightView splat_view(double value, Type type);
WeightView seeded_view(uint64_t seed, Type type);
// The parts must agree (checked by view_type).
WeightView concat_view(int64_t axis, std::vector<WeightView> parts);
// The view with one more step; steps that change nothing are dropped; a reshape of a reshape, a
// permute of a permute and a cast of an exact widening are merged.
WeightView then(WeightView view, ViewStep step);

// The views that a step reads besides the one that it follows: scales, offsets and tables.
std::vector<const WeightView*> parameters_of(const ViewStep& step);
std::vector<WeightView*> parameters_of(ViewStep& step);

inline constexpr size_t kMaxViewNesting = 64;  // views within views

// The type of the elements that a view delivers. Errors if it is ill-formed: codes view.c1 …
// view.c14 of ir/OPS.md.
Result<Type> view_type(const WeightView& view);

std::string to_string(const WeightView& view);

// The value of element i of seeded(seed): splitmix64(seed + i), its top 24 bits scaled to [-1, 1).
float seeded_element(uint64_t seed, uint64_t index);

// Calls visit for each tensor that the view reads, those of its steps' scales, offsets and tables
// included.
void for_each_tensor(const WeightView& view,
                     const std::function<void(const TensorSource&, const Type&)>& visit);

}  // namespace moec
