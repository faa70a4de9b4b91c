// Helpers for tests of the TFLite backend and its reader.
#pragma once

#include <tflite_generated.h>

#include <algorithm>
#include <numbers>

#include "backends/formats/tflite/emit_tflite.h"
#include "tests/backends/formats/onnx/testing.h"
#include "tests/files.h"

namespace moec {

inline Result<EmitReport> emit_widths(const std::vector<ShardWidth>& widths,
                                      const TestFolder& folder) {
  return emit_tflite(widths, no_files(), {.folder = folder.string(), .stem = "shard"});
}

// Every op that has a TFLite form, except conv.
inline Shard every_tflite_op(DType dtype, int64_t tokens) {
  return every_op_shard(dtype, Layout::rows, tokens, true, false);
}

// x · ((erf(x · bend) + 1) / 2), which is a gelu if `bend` is 1/√2.
inline Shard gelu_shard(DType dtype, double bend = 1 / std::numbers::sqrt2) {
  Builder b("L00.router", Form::placed);
  const ValueId x = b.input("x", {dtype, {3, 4}, Layout::rows});
  const ValueId erf = b.unary(UnaryFn::erf, b.mul(x, b.scalar_like(x, bend)));
  const ValueId sum = b.add(erf, b.scalar_like(x, 1));
  b.output("y", b.mul(x, b.mul(sum, b.scalar_like(x, 0.5)), "gelu"));
  return b.finish();
}

// A convolution over 4 tokens with filters of `taps` tokens, in `groups` groups of channels.
inline Shard conv_shard(DType dtype, int64_t groups, bool bias) {
  Builder b("L00.conv", Form::placed);
  const ValueId x = b.input("x", token_type(dtype, Layout::channels, 6, 4));
  const auto weight = [&](uint64_t seed, Dims dims, const char* name) {
    return b.weight(then(seeded_view(seed, {DType::f32, std::move(dims)}), CastStep{dtype}), name);
  };
  std::vector<ValueId> operands = {x, weight(1, {6, 6 / groups, 3, 1}, "w")};
  if (bias) operands.push_back(weight(2, {6}, "bias"));
  b.output("y", b.emit(Conv{groups}, operands, "y"));
  return b.finish();
}

// A product with quantized weights of 6 rows.
inline Shard coded_shard(const AffineEncoding& encoding, int64_t inputs) {
  Builder b("L00.moe", Form::placed);
  const ValueId x = b.input("x", token_type(DType::f32, Layout::rows, inputs, 3));
  const Weight weight{seeded_view(4, {DType::f32, {6, inputs}}), encoding};
  b.output("y", b.matmul(x, b.transpose(b.emit(weight, {}, "w"), {1, 0})));
  return b.finish();
}

// The operators of a file's first graph, in order.
inline std::vector<std::string> operators_of(const std::string& path) {
  const std::string bytes = read_file(path);
  const tflite::Model* model = tflite::GetModel(bytes.data());
  std::vector<std::string> names;
  for (const tflite::Operator* node : *model->subgraphs()->Get(0)->operators())
    names.emplace_back(tflite::EnumNameBuiltin(
        model->operator_codes()->Get(node->opcode_index())->builtin_code()));
  return names;
}

}  // namespace moec
