// Emits shards with encoded weights and reads them back. Compares the shards, their results bit for
// bit, and the byte counts of the encodings.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <fstream>

#include "backends/formats/coreml/emit_coreml.h"
#include "backends/formats/coreml/read_coreml.h"
#include "backends/formats/onnx/emit_onnx.h"
#include "backends/formats/onnx/read_onnx.h"
#include "backends/formats/tflite/emit_tflite.h"
#include "backends/formats/tflite/read_tflite.h"
#include "backends/reference/reference.h"
#include "ir/text/text.h"
#include "tests/backends/formats/onnx/testing.h"
#include "tests/frontends/filed_shard.h"

namespace moec {
namespace {

// x [tokens, K] · Wᵀ with quantized W [N, K].
Shard encoded_matmul(const Encoding& encoding, const Type& weight, int64_t uses = 1) {
  Builder b("L00.moe", Form::placed);
  const ValueId x = b.input("x", token_type(weight.dtype, Layout::rows, weight.dims[1], 3));
  const ValueId w = b.weight(
      then(seeded_view(3, {DType::f32, weight.dims}), CastStep{weight.dtype}), "w", encoding);
  for (int64_t use = 0; use < uses; ++use)
    b.output("y" + std::to_string(use), b.matmul(x, b.transpose(w, {1, 0})));
  return b.finish();
}

// x [2, tokens, K] · Wᵀ, with activations of three axes.
Shard encoded_batch(const Encoding& encoding, const Type& weight) {
  Builder b("L00.moe", Form::placed);
  const int64_t n = weight.dims[0], k = weight.dims[1];
  const ValueId x = b.input("x", {weight.dtype, {2, 3, k}});
  const ValueId w = b.weight(
      then(seeded_view(3, {DType::f32, weight.dims}), CastStep{weight.dtype}), "w", encoding);
  b.output("y", b.matmul(x, b.reshape(b.transpose(w, {1, 0}), {1, k, n})));
  return b.finish();
}

Shard encoded_conv(const Encoding& encoding, const Type& weight, Layout layout = Layout::channels) {
  Builder b("L00.moe", Form::placed);
  const ValueId x = b.input("x", token_type(weight.dtype, layout, weight.dims[1], 3));
  const ValueId plain =
      b.weight(then(seeded_view(4, {DType::f32, {weight.dims[0]}}), CastStep{weight.dtype}), "b");
  const ValueId w = b.weight(
      then(seeded_view(3, {DType::f32, weight.dims}), CastStep{weight.dtype}), "w", encoding);
  b.output("y", b.emit(Conv{}, {x, w, plain}));
  return b.finish();
}

// Two tokens through 3 experts, with matrices in these encodings.
struct MoeCase {
  Encoding gate_up, down;
  bool biases = false;
  Gating gating;
};

Shard encoded_moe(const MoeCase& c, DType dtype, int64_t d, int64_t f) {
  Builder b("L00.moe", Form::placed);
  const auto weight = [&](uint64_t seed, Dims dims, const std::string& name,
                          const Encoding& encoding) {
    return b.weight(then(seeded_view(seed, {DType::f32, std::move(dims)}), CastStep{dtype}), name,
                    encoding);
  };
  std::vector<ValueId> operands = {b.input("x", token_type(dtype, Layout::rows, d, 2)),
                                   b.input("routing", token_type(dtype, Layout::rows, 3, 2)),
                                   weight(3, {3, 2 * f, d}, "gate_up", c.gate_up),
                                   weight(4, {3, d, f}, "down", c.down)};
  if (c.biases) {
    operands.push_back(weight(5, {3, 2 * f}, "gate_up_bias", PlainEncoding{}));
    operands.push_back(weight(6, {3, d}, "down_bias", PlainEncoding{}));
  }
  b.output("y", b.emit(Moe{2, c.gating}, std::move(operands)));
  return b.finish();
}

// Lists the node types of an emitted shard.
std::vector<std::string> nodes_of(const Shard& shard) {
  const TestFolder folder;
  EXPECT_TRUE(emit_one(shard, folder));
  onnx::ModelProto model;
  std::ifstream file(folder / "shard.t1.onnx", std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file));
  std::vector<std::string> types;
  for (const onnx::NodeProto& node : model.graph().node()) types.push_back(node.op_type());
  return types;
}

uint64_t bytes_of_weights(const Shard& shard, CodeForm form = CodeForm::signed_codes) {
  uint64_t bytes = 0;
  for (const Op& op : shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data)) {
      const Type& type = shard.type(op.results[0]);
      if (is_plain(weight->encoding)) bytes += static_cast<uint64_t>(type.bytes());
      for (const StoredPart& part : stored_parts(weight->encoding, type, form))
        bytes += static_cast<uint64_t>(part.type.bytes());
    }
  return bytes;
}

void expect_same(const Shard& emitted, const LoadedShard& read, Precision precision) {
  const Shard expected = as_filed(emitted), got = as_filed(read.shard);
  ASSERT_TRUE(expected == got) << print(expected) << print(got);
  const std::vector<Tensor> inputs = seeded_inputs(emitted, 7);
  auto run = [&](const Shard& shard, const WeightTable& table) {
    auto executor = Executor::create(shard, table, {.precision = precision});
    EXPECT_TRUE(executor) << render(executor.error());
    return executor->run(inputs).value();
  };
  EXPECT_EQ(run(read.shard, read.weights), run(emitted, {}));
}

void expect_onnx(const Shard& shard) {
  const TestFolder folder;
  auto report = emit_one(shard, folder);
  ASSERT_TRUE(report) << render(report.error()) << print(shard);
  // Only weights for MatMulNBits are longer in the excess form.
  const bool matmul = shard.type(shard.inputs[0]).rank() != 4;
  EXPECT_EQ(report->weight_bytes,
            bytes_of_weights(shard, matmul ? CodeForm::excess : CodeForm::signed_codes))
      << print(shard);
  auto read = read_onnx(folder / "shard.t1.onnx");
  ASSERT_TRUE(read) << render(read.error()) << print(shard);
  expect_same(shard, *read, Precision::f32);
}

void expect_coreml(const Shard& shard, int least_version) {
  const TestFolder folder;
  const ShardWidth width{3, &shard};
  const EmitOptions options{.folder = folder.string(), .stem = "shard"};
  auto early = emit_coreml({&width, 1}, no_files(), options, {.spec_version = least_version - 1});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().front().code, "coreml.spec_too_low");
  auto report = emit_coreml({&width, 1}, no_files(), options, {});
  ASSERT_TRUE(report) << render(report.error()) << print(shard);
  EXPECT_EQ(report->weight_bytes, bytes_of_weights(shard)) << print(shard);
  auto read = read_coreml(folder / report->graphs[0].file.path, {.function = {}, .tokens = 3});
  ASSERT_TRUE(read) << render(read.error()) << print(shard);
  expect_same(shard, *read,
              shard.type(shard.inputs[0]).dtype == DType::f16 ? Precision::f16 : Precision::f32);
}

void expect_tflite(const Shard& shard) {
  const TestFolder folder;
  const ShardWidth width{3, &shard};
  auto report = emit_tflite({&width, 1}, no_files(), {.folder = folder.string(), .stem = "shard"});
  ASSERT_TRUE(report) << render(report.error()) << print(shard);
  auto read = read_tflite(folder / "shard.tflite");
  ASSERT_TRUE(read) << render(read.error()) << print(shard);
  const std::vector<Tensor> inputs = seeded_inputs(shard, 7);
  auto run = [&](const Shard& each, const WeightTable& table) {
    auto executor = Executor::create(each, table, {});
    EXPECT_TRUE(executor) << render(executor.error());
    return executor->run(inputs).value();
  };
  EXPECT_EQ(run(read->shard, read->weights), run(shard, {}));
}

std::string tflite_refusal(const Shard& shard) {
  const ShardWidth width{3, &shard};
  const auto views = tflite_weight_views({&width, 1});
  return views ? std::string() : views.error().front().code;
}

TEST(EncodedTflite, RoundTripsInt4Blocks) {
  for (const int64_t block : {32, 64, 128})
    for (const int64_t uses : {1, 2})
      expect_tflite(encoded_matmul(AffineEncoding{4, {1, block}}, {DType::f32, {24, 128}}, uses));
}

// The scales are stored as f16, whatever the type of the weight.
TEST(EncodedTflite, StoresScalesAsF16) {
  const TestFolder folder;
  const Shard shard = encoded_matmul(AffineEncoding{4, {1, 32}}, {DType::f32, {24, 64}});
  const ShardWidth width{3, &shard};
  auto report = emit_tflite({&width, 1}, no_files(), {.folder = folder.string(), .stem = "shard"});
  ASSERT_TRUE(report) << render(report.error());
  ASSERT_EQ(report->ranges.size(), 2u);
  EXPECT_EQ(report->ranges[0].range.bytes, 24 * 64 / 2);
  EXPECT_EQ(report->ranges[1].range.bytes, 24 * 2 * 2);
}

TEST(EncodedTflite, RejectsCodesWithoutKernels) {
  const Type type{DType::f32, {24, 128}};
  for (const AffineEncoding& encoding :
       {AffineEncoding{4, {1, 16}}, AffineEncoding{4, {1, 32}, true}, AffineEncoding{8, {1, 32}},
        AffineEncoding{4, {1, 128 * 2}}})
    EXPECT_EQ(tflite_refusal(encoded_matmul(encoding, type)), "emit.encoding");
  EXPECT_EQ(tflite_refusal(encoded_matmul(AffineEncoding{4, {1, 32}}, {DType::f32, {24, 80}})),
            "emit.encoding");
  EXPECT_EQ(tflite_refusal(encoded_matmul(AffineEncoding{4, {1, 32}}, {DType::f16, {24, 64}})),
            "emit.encoding");
}

TEST(EncodedOnnx, RoundTripsInt8Convolutions) {
  const Type type{DType::f32, {24, 40, 1, 1}};
  for (const bool zero : {false, true}) {
    expect_onnx(encoded_conv(AffineEncoding{8, {1, 40, 1, 1}, zero}, type));
    expect_onnx(encoded_conv(AffineEncoding{8, {24, 40, 1, 1}, zero}, type));
  }
}

TEST(EncodedOnnx, RoundTripsInt8Matmuls) {
  expect_onnx(encoded_matmul(AffineEncoding{8, {1, 40}}, {DType::f32, {24, 40}}, 2));
}

// DequantizeLinear of opset 17 produces only f32.
TEST(EncodedOnnx, CastsInt8WeightsToF16) {
  for (const bool zero : {false, true}) {
    const Shard conv =
        encoded_conv(AffineEncoding{8, {1, 40, 1, 1}, zero}, {DType::f16, {24, 40, 1, 1}});
    expect_onnx(conv);
    EXPECT_EQ(nodes_of(conv),
              (std::vector<std::string>{"Cast", "DequantizeLinear", "Cast", "Conv"}));
    expect_onnx(encoded_matmul(AffineEncoding{8, {24, 40}, zero}, {DType::f16, {24, 40}}, 2));
  }
}

TEST(EncodedOnnx, RoundTripsInt4Blocks) {
  for (const DType dtype : {DType::f32, DType::f16})
    for (const int64_t inputs : {64, 80, 96})  // two blocks; a partial one; three
      for (const bool zero : {false, true})
        for (const int64_t uses : {1, 2})
          expect_onnx(
              encoded_matmul(AffineEncoding{4, {1, 32}, zero}, {dtype, {24, inputs}}, uses));
}

// MatMulNBits accepts activations with three axes directly.
TEST(EncodedOnnx, MultipliesActivationsOfThreeAxes) {
  for (const int64_t bits : {4, 8}) {
    const Shard shard = encoded_batch(AffineEncoding{bits, {1, 32}}, {DType::f32, {24, 96}});
    expect_onnx(shard);
    EXPECT_EQ(nodes_of(shard), std::vector<std::string>{"MatMulNBits"});
  }
}

// MatMulNBits transposes its weight itself, so the file has fewer nodes than the shard has ops.
TEST(EncodedOnnx, NamesNodesOfTheFile) {
  Builder b("L00.moe", Form::placed);
  const ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 96, 3));
  const ValueId w =
      b.weight(seeded_view(3, {DType::f32, {24, 96}}), "w", AffineEncoding{4, {1, 32}});
  const ValueId columns = b.transpose(w, {1, 0}), rows = b.reshape(x, {1, 3, 96});
  b.output("y", b.matmul(rows, b.reshape(columns, {1, 96, 24})));
  const TestFolder folder;
  ASSERT_TRUE(emit_one(b.finish(), folder));
  const auto read = read_onnx(folder / "shard.t1.onnx");
  ASSERT_TRUE(read) << render(read.error());
  const auto node_of = [&](const OpData& kind) {
    for (const OpId id : op_ids(read->shard))
      if (read->shard.ops[id].data.index() == kind.index()) return read->nodes[id];
    return std::string();
  };
  onnx::ModelProto model;
  std::ifstream file(folder / "shard.t1.onnx", std::ios::binary);
  ASSERT_TRUE(model.ParseFromIstream(&file));
  ASSERT_EQ(model.graph().node_size(), 2);
  EXPECT_EQ(node_of(Reshape{}), model.graph().node(0).name());
  EXPECT_EQ(node_of(MatMul{}), model.graph().node(1).name());
  EXPECT_EQ(node_of(Transpose{}), model.graph().node(1).name());
  EXPECT_EQ(node_of(Weight{}), "");
}

TEST(EncodedOnnx, RoundTripsInt8Blocks) {
  for (const DType dtype : {DType::f32, DType::f16})
    for (const int64_t inputs : {64, 80})
      for (const bool zero : {false, true})
        expect_onnx(encoded_matmul(AffineEncoding{8, {1, 32}, zero}, {dtype, {24, inputs}}));
}

// One scale per row uses a standard op without a custom domain.
TEST(EncodedOnnx, DequantizesWholeRowInt8Blocks) {
  const Shard shard = encoded_matmul(AffineEncoding{8, {1, 64}}, {DType::f32, {24, 64}});
  expect_onnx(shard);
  EXPECT_EQ(nodes_of(shard), (std::vector<std::string>{"DequantizeLinear", "Transpose", "MatMul"}));
}

TEST(EncodedOnnx, RoundTripsPlainExperts) {
  const Gating clamped{Activation::clamped_swiglu, 7, 1.702};
  for (const Gating& gating : {Gating(), clamped})
    for (const bool biases : {false, true})
      expect_onnx(
          encoded_moe({PlainEncoding{}, PlainEncoding{}, biases, gating}, DType::f32, 6, 4));
  EXPECT_EQ(
      nodes_of(encoded_moe({}, DType::f32, 6, 4)),
      (std::vector<std::string>{"Log", "Max", "MoE", "ReduceSum", "Greater", "Mul", "Where"}));
}

TEST(EncodedOnnx, RoundTripsExpertsInCodes) {
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool biases : {false, true}) {
      for (const bool zero : {false, true}) {
        const AffineEncoding blocks{4, {1, 1, 32}, zero};
        expect_onnx(encoded_moe({blocks, blocks, biases}, dtype, 96, 64));
      }
      const AffineEncoding wide{8, {1, 1, 32}};
      expect_onnx(encoded_moe({wide, wide, biases}, dtype, 96, 64));
      const MoeCase rows{AffineEncoding{8, {1, 1, 6}}, AffineEncoding{8, {1, 1, 4}}, biases};
      expect_onnx(encoded_moe(rows, dtype, 6, 4));
      EXPECT_EQ(nodes_of(encoded_moe(rows, dtype, 6, 4)), std::vector<std::string>{"QMoE"});
    }
}

TEST(EncodedCoreml, RoundTripsInt8AlongAnAxis) {
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool zero : {false, true}) {
      expect_coreml(encoded_conv(AffineEncoding{8, {1, 40, 1, 1}, zero}, {dtype, {24, 40, 1, 1}}),
                    7);
      expect_coreml(encoded_matmul(AffineEncoding{8, {1, 40}, zero}, {dtype, {24, 40}}), 7);
    }
}

TEST(EncodedCoreml, RoundTripsBlocks) {
  const Type type{DType::f16, {24, 64, 1, 1}};
  for (const bool zero : {false, true}) {
    expect_coreml(encoded_conv(AffineEncoding{4, {1, 32, 1, 1}, zero}, type), 9);
    expect_coreml(encoded_conv(AffineEncoding{8, {24, 64, 1, 1}, zero}, type), 9);
    expect_coreml(encoded_conv(AffineEncoding{4, {1, 64, 1, 1}, zero}, {DType::f16, {7, 64, 1, 1}}),
                  9);
  }
}

TEST(EncodedCoreml, RoundTripsPalettes) {
  for (const int64_t bits : {1, 2, 3, 4, 6, 8}) {
    expect_coreml(encoded_conv(PaletteEncoding{bits, {8, 40, 1, 1}}, {DType::f16, {24, 40, 1, 1}}),
                  9);
    // 49 codes: the last byte is partial.
    expect_coreml(encoded_conv(PaletteEncoding{bits, {7, 7, 1, 1}}, {DType::f16, {7, 7, 1, 1}}), 9);
    expect_coreml(encoded_matmul(PaletteEncoding{bits, {12, 40}}, {DType::f32, {24, 40}}), 9);
  }
}

// The decoded values are equal in every format.
TEST(EncodedWeights, DecodeEquallyInAllFormats) {
  const Shard shard = encoded_matmul(AffineEncoding{4, {1, 32}}, {DType::f16, {24, 64}});
  std::string values[2];
  for (std::string& each : values) {
    const TestFolder folder;
    EmitOptions options{.folder = folder.string(), .stem = "shard"};
    options.on_weight = [&](const std::string&, uint64_t offset, std::span<const std::byte> bytes) {
      EXPECT_EQ(offset, each.size());
      each.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    const ShardWidth width{3, &shard};
    const bool onnx = &each == &values[0];
    const auto report = onnx ? emit_onnx({&width, 1}, no_files(), options)
                             : emit_coreml({&width, 1}, no_files(), options);
    ASSERT_TRUE(report) << render(report.error());
    EXPECT_EQ(each.size(), 24u * 64 * 2);
  }
  EXPECT_EQ(values[0], values[1]);
}

std::string code_of_emission(const Shard& shard) {
  const TestFolder folder;
  const auto report = emit_one(shard, folder);
  return report ? "" : report.error().front().code;
}

TEST(EncodedOnnx, RejectsFormsMissingFromOnnx) {
  EXPECT_EQ(code_of_emission(
                encoded_conv(PaletteEncoding{4, {8, 40, 1, 1}}, {DType::f32, {24, 40, 1, 1}})),
            "emit.encoding");
  EXPECT_EQ(code_of_emission(
                encoded_conv(AffineEncoding{4, {1, 32, 1, 1}}, {DType::f32, {24, 64, 1, 1}})),
            "emit.encoding");
  EXPECT_EQ(code_of_emission(
                encoded_conv(AffineEncoding{8, {1, 40, 1, 1}}, {DType::bf16, {24, 40, 1, 1}})),
            "emit.encoding");
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f32, {24, 64}});
  b.output("y", b.add(x, b.weight(seeded_view(1, {DType::f32, {24, 64}}), "w",
                                  AffineEncoding{4, {1, 32}})));
  EXPECT_EQ(code_of_emission(b.finish()), "emit.encoding");
}

TEST(EncodedOnnx, RejectsExpertsInDifferentCodes) {
  const AffineEncoding four{4, {1, 1, 32}}, eight{8, {1, 1, 32}};
  const auto code = [](const Encoding& gate_up, const Encoding& down) {
    return code_of_emission(encoded_moe({gate_up, down}, DType::f32, 96, 64));
  };
  EXPECT_EQ(code(four, four), "");
  EXPECT_EQ(code(four, eight), "emit.encoding");
  EXPECT_EQ(code(four, PlainEncoding{}), "emit.encoding");
  EXPECT_EQ(code(eight, AffineEncoding{8, {1, 1, 64}}), "emit.encoding");
}

TEST(EncodedOnnx, RejectsOtherUsesOfExperts) {
  Builder b("L00.moe", Form::placed);
  const ValueId w =
      b.weight(seeded_view(3, {DType::f32, {2, 4, 32}}), "w", AffineEncoding{4, {1, 1, 32}});
  b.output("y", b.reshape(w, {8, 32}));
  EXPECT_EQ(code_of_emission(b.finish()), "emit.encoding");
}

// An encoder buffers one band of blocks; a weight that is a single band must not exhaust memory.
TEST(EncodedWeights, RejectABandAboveTheBudget) {
  const Shard shard = encoded_matmul(AffineEncoding{8, {4096, 2048}}, {DType::f32, {4096, 2048}});
  EXPECT_EQ(code_of_emission(shard), "encode.over_budget");
}

}  // namespace
}  // namespace moec
