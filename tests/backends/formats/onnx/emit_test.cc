#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include "backends/files/sha.h"
#include "backends/formats/onnx/check_onnx.h"
#include "tests/backends/formats/onnx/testing.h"
#include "tests/files.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

onnx::ModelProto load_model(const std::string& path) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(read_file(path))) << path;
  return model;
}

std::map<std::string, std::string> external_of(const onnx::TensorProto& tensor) {
  std::map<std::string, std::string> entries;
  for (const auto& entry : tensor.external_data()) entries[entry.key()] = entry.value();
  return entries;
}

std::vector<std::string> files_in(const TestFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder.string()))
    if (entry.is_regular_file())
      names.push_back(fs::relative(entry.path(), folder.string()).string());
  std::sort(names.begin(), names.end());
  return names;
}

// Two weights, the first of them used by two ops.
Shard two_weights(int64_t tokens, DType dtype = DType::f32) {
  Builder b("L02.mlp", Form::placed);
  ValueId x = b.input("hidden", token_type(dtype, Layout::channels, 3, tokens));
  const Type kernel{dtype, {3, 3, 1, 1}};
  ValueId w0 = b.weight(seeded_view(1, kernel), "experts.0.gate.weight");
  ValueId w1 = b.weight(splat_view(0.5, kernel), "experts.1.gate.weight");
  ValueId w2 = b.weight(seeded_view(1, kernel), "experts.2.gate.weight");
  ValueId y = b.emit(Conv{}, {x, w0}, "experts.0.gate");
  y = b.emit(Conv{}, {y, w1}, "experts.1.gate");
  b.output("moe_out", b.emit(Conv{}, {y, w2}, "experts.2.gate"));
  return b.finish();
}

// ---- Accepted by the checker of onnx ------------------------------------------------------------

TEST(EmitOnnx, PassesTheCheckerWithEveryOp) {
  TestFolder folder;
  for (DType dtype : {DType::f32, DType::f16})
    for (Layout layout : {Layout::rows, Layout::channels})
      for (int64_t tokens : {1, 5}) {
        auto report = emit_one(every_op_shard(dtype, layout, tokens), folder);
        ASSERT_TRUE(report) << render(report.error());
        const Status status = check_onnx_file(folder / "shard.t1.onnx");
        EXPECT_TRUE(status) << render(status.error());
      }
}

// Uses rows and no top-k: opset 17 has no Conv and no TopK for bf16.
TEST(EmitOnnx, PassesTheCheckerWithBf16) {
  TestFolder folder;
  auto report = emit_one(every_op_shard(DType::bf16, Layout::rows, 5, false), folder);
  ASSERT_TRUE(report) << render(report.error());
  const Status status = check_onnx_file(folder / "shard.t1.onnx");
  EXPECT_TRUE(status) << render(status.error());
}

TEST(EmitOnnx, PassesTheCheckerWithRandomShards) {
  TestFolder folder;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto report = emit_one(random_shard(seed), folder);
    ASSERT_TRUE(report) << render(report.error());
    const Status status = check_onnx_file(folder / "shard.t1.onnx");
    EXPECT_TRUE(status) << seed << ": " << render(status.error());
  }
}

TEST(EmitOnnx, AcceptsScalarsAndOtherTypes) {
  Builder b("s", Form::placed);
  ValueId x = b.input("x", {DType::f32, {1}});
  ValueId scalar = b.reshape(x, {}, Layout::plain, "scalar");
  b.output("u8", b.cast(scalar, DType::u8));
  b.output("i32", b.cast(b.constant({DType::i32, {2}}, {-1, 5}), DType::i32));
  b.output("bf16", b.add(b.cast(scalar, DType::bf16), b.constant({DType::bf16, {}}, {2})));
  b.output("truth", b.constant({DType::boolean, {2}}, {1, 0}));
  const Shard shard = b.finish();
  TestFolder folder;
  auto report = emit_one(shard, folder);
  ASSERT_TRUE(report) << render(report.error());
  const Status status = check_onnx_file(folder / "shard.t1.onnx");
  EXPECT_TRUE(status) << render(status.error());
  EXPECT_TRUE(report->data.empty());
  EXPECT_THAT(files_in(folder), ElementsAre("shard.t1.onnx"));
}

TEST(CheckOnnxFile, DetectsEditsAfterEmission) {
  TestFolder folder;
  ASSERT_TRUE(emit_one(two_weights(2), folder));
  const std::string path = folder / "shard.t1.onnx";
  const onnx::ModelProto good = load_model(path);
  auto code_after = [&](auto change) {
    onnx::ModelProto model = good;
    change(model);
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    const Status status = check_onnx_file(path);
    return status ? std::string() : status.error().front().code;
  };
  EXPECT_EQ(code_after([](auto&) {}), "");
  EXPECT_EQ(code_after([](auto& m) { m.mutable_graph()->mutable_node(0)->set_op_type("Convo"); }),
            "onnx.checker");
  EXPECT_EQ(code_after([](auto& m) {
              m.mutable_graph()
                  ->mutable_output(0)
                  ->mutable_type()
                  ->mutable_tensor_type()
                  ->mutable_shape()
                  ->mutable_dim(1)
                  ->set_dim_value(7);
            }),
            "onnx.shape_inference");
  std::ofstream(path) << "not a model";
  EXPECT_EQ(check_onnx_file(path).error().front().code, "onnx.unreadable");
  ASSERT_TRUE(emit_one(two_weights(2), folder));
  fs::remove(folder / "shard.data");
  EXPECT_EQ(check_onnx_file(path).error().front().code, "onnx.checker");
}

// ---- Data file ---------------------------------------------------------------------------------

TEST(EmitOnnx, AlignsAndSharesWeights) {
  TestFolder folder;
  auto report = emit_one(two_weights(2), folder);
  ASSERT_TRUE(report) << render(report.error());
  ASSERT_EQ(report->tensors.size(), 2u);
  EXPECT_EQ(report->tensors[0].offset, 0u);
  EXPECT_EQ(report->tensors[1].offset, 65536u);
  EXPECT_EQ(report->weight_bytes, 72u);
  EXPECT_EQ(report->data[0].bytes, 65536u + 36);

  EXPECT_EQ(fs::file_size(folder / "shard.data"), report->data[0].bytes);

  const auto graph = load_model(folder / "shard.t1.onnx").graph();
  ASSERT_EQ(graph.initializer_size(), 3);
  auto shared = external_of(graph.initializer(0));
  EXPECT_EQ(shared["location"], "shard.data");
  EXPECT_EQ(shared["offset"], "0");
  EXPECT_EQ(shared["length"], "36");
  EXPECT_FALSE(shared.contains("checksum"));
  EXPECT_EQ(external_of(graph.initializer(1))["offset"], "65536");
  EXPECT_EQ(external_of(graph.initializer(2)), shared);
  EXPECT_NE(graph.initializer(0).name(), graph.initializer(2).name());
}

TEST(EmitOnnx, RecordsSha1OnRequest) {
  TestFolder folder;
  const Shard shard = two_weights(2);
  const ShardWidth width{1, &shard};
  ASSERT_TRUE(emit_onnx({&width, 1}, no_files(), {.folder = folder.string(), .stem = "shard"},
                        {.checksum = true}));
  const std::string data = read_file(folder / "shard.data");
  Sha sha1(ShaKind::sha1);
  sha1.update(std::as_bytes(std::span(data)));
  const std::string checksum = sha1.finish_hex();
  const auto graph = load_model(folder / "shard.t1.onnx").graph();
  for (const onnx::TensorProto& tensor : graph.initializer())
    EXPECT_EQ(external_of(tensor)["checksum"], checksum);
}

TEST(EmitOnnx, WritesTheBytesOfTheWeights) {
  TestFolder folder;
  auto report = emit_one(two_weights(2), folder).value();
  const std::string data = read_file(folder / "shard.data");
  for (size_t i = 0; i < 9; ++i) {
    float first = 0, second = 0;
    std::memcpy(&first, data.data() + 4 * i, 4);
    std::memcpy(&second, data.data() + report.tensors[1].offset + 4 * i, 4);
    EXPECT_EQ(first, seeded_element(1, i));
    EXPECT_EQ(second, 0.5f);
  }
}

TEST(EmitOnnx, SharesOneDataFileBetweenWidths) {
  TestFolder folder;
  const Shard one = two_weights(1), many = two_weights(16);
  const ShardWidth widths[] = {{1, &one}, {16, &many}};
  auto report = emit_onnx(widths, no_files(), {.folder = folder.string(), .stem = "mlp/L02"});
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_THAT(files_in(folder), ElementsAre("mlp/L02.data", "mlp/L02.t1.onnx", "mlp/L02.t16.onnx"));
  EXPECT_EQ(report->graphs[1].file.path, "mlp/L02.t16.onnx");
  EXPECT_EQ(report->graphs[1].tokens, 16);
  EXPECT_EQ(report->data[0].path, "mlp/L02.data");
  const auto first = load_model(folder / "mlp/L02.t1.onnx").graph();
  const auto second = load_model(folder / "mlp/L02.t16.onnx").graph();
  ASSERT_EQ(first.initializer_size(), second.initializer_size());
  for (int i = 0; i < first.initializer_size(); ++i) {
    EXPECT_EQ(first.initializer(i).name(), second.initializer(i).name());
    EXPECT_EQ(external_of(first.initializer(i)), external_of(second.initializer(i)));
  }
  for (const char* file : {"mlp/L02.t1.onnx", "mlp/L02.t16.onnx"})
    EXPECT_TRUE(check_onnx_file(folder / file));
}

TEST(EmitOnnx, StoresWeightsUsedByOneWidth) {
  TestFolder folder;
  Builder b("L02.mlp", Form::placed);
  ValueId x = b.input("hidden", {DType::f32, {3}});
  b.output("moe_out", b.add(x, b.weight(seeded_view(9, {DType::f32, {3}}))));
  const Shard one = two_weights(1), other = b.finish();
  const ShardWidth widths[] = {{1, &one}, {2, &other}};
  auto report = emit_onnx(widths, no_files(), {.folder = folder.string(), .stem = "s"});
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->tensors.size(), 3u);
  EXPECT_EQ(report->data[0].bytes, 2 * 65536u + 12);
}

TEST(EmitOnnx, CountsOverflowsInCasts) {
  TestFolder folder;
  Builder b("s", Form::placed);
  const WeightView big = then(splat_view(1e5, {DType::f32, {4}}), CastStep{DType::f16});
  b.output("y", b.unary(UnaryFn::neg, b.weight(big, "big")));
  b.output("z", b.unary(UnaryFn::neg, b.weight(splat_view(1, {DType::f16, {4}}), "small")));
  auto report = emit_one(b.finish(), folder);
  ASSERT_TRUE(report) << render(report.error());
  ASSERT_EQ(report->tensors.size(), 2u);
  EXPECT_EQ(report->tensors[0].name, "big");
  EXPECT_EQ(report->tensors[0].overflows, 4u);
  EXPECT_EQ(report->tensors[1].overflows, 0u);
  EXPECT_EQ(report->overflows(), 4u);
}

TEST(EmitOnnx, ReportsProgress) {
  TestFolder folder;
  const Shard shard = two_weights(1);
  const ShardWidth width{1, &shard};
  uint64_t told = 0, calls = 0;
  EmitOptions options{.folder = folder.string(), .stem = "s"};
  options.tile_bytes = 8;
  options.on_progress = [&](uint64_t bytes) -> Status {
    told += bytes, ++calls;
    return {};
  };
  ASSERT_TRUE(emit_onnx({&width, 1}, no_files(), options));
  EXPECT_EQ(told, 72u);
  EXPECT_GE(calls, 9u);
}

TEST(EmitOnnx, WritesEqualBytesForEqualShards) {
  TestFolder folder;
  const Shard shard = every_op_shard(DType::f16, Layout::channels, 3);
  auto first = emit_one(shard, folder, "a/s").value();
  auto second = emit_one(shard, folder, "b/s").value();
  EXPECT_EQ(first.graphs[0].file.digest, second.graphs[0].file.digest);
  EXPECT_EQ(first.data[0].digest, second.data[0].digest);
  EXPECT_EQ(read_file(folder / "a/s.t1.onnx"), read_file(folder / "b/s.t1.onnx"));
  EXPECT_EQ(read_file(folder / "a/s.data"), read_file(folder / "b/s.data"));
}

// ---- Names and texts ---------------------------------------------------------------------------

TEST(EmitOnnx, NamesNodesHierarchically) {
  TestFolder folder;
  ASSERT_TRUE(emit_one(two_weights(1), folder));
  const auto graph = load_model(folder / "shard.t1.onnx").graph();
  std::vector<std::string> nodes, outputs;
  for (const auto& node : graph.node()) {
    nodes.push_back(node.name());
    outputs.push_back(node.output(0));
  }
  EXPECT_THAT(nodes, ElementsAre("L02/mlp/experts.0/gate", "L02/mlp/experts.1/gate",
                                 "L02/mlp/experts.2/gate"));
  EXPECT_THAT(outputs, ElementsAre("experts.0.gate", "experts.1.gate", "moe_out"));
  EXPECT_EQ(graph.name(), "L02.mlp");
  EXPECT_EQ(graph.input(0).name(), "hidden");
  EXPECT_EQ(graph.output(0).name(), "moe_out");
}

TEST(EmitOnnx, KeepsNamesUnique) {
  TestFolder folder;
  for (uint64_t seed = 100; seed < 140; ++seed) {
    ASSERT_TRUE(emit_one(random_shard(seed), folder));
    const auto graph = load_model(folder / "shard.t1.onnx").graph();
    std::set<std::string> tensors, nodes;
    for (const auto& input : graph.input()) EXPECT_TRUE(tensors.insert(input.name()).second);
    for (const auto& tensor : graph.initializer())
      EXPECT_TRUE(tensors.insert(tensor.name()).second) << tensor.name();
    for (const auto& node : graph.node()) {
      EXPECT_TRUE(nodes.insert(node.name()).second) << node.name();
      for (const auto& output : node.output()) EXPECT_TRUE(tensors.insert(output).second) << output;
    }
  }
}

TEST(EmitOnnx, NamesInitializersAfterCheckpointTensors) {
  TestFolder folder;
  const Type type{DType::f32, {2, 2}};
  std::ofstream(folder / "checkpoint", std::ios::binary) << std::string(16, 'x');
  WeightTable table;
  table.files = {{folder / "checkpoint", 16}};
  table.tensors["model.layers.0.mlp.gate.weight"] = {0, 0, type};
  const WeightView whole = tensor_view("model.layers.0.mlp.gate.weight", type);
  Builder b("L00.moe", Form::placed);
  ValueId all = b.weight(then(whole, PermuteStep{{1, 0}}), "router.weight");
  ValueId part = b.weight(then(whole, SliceStep{0, 0, 1}), "first_row");
  b.output("y", b.add(all, part));
  const Shard shard = b.finish();
  const ShardWidth width{1, &shard};
  const WeightReader reader = WeightReader::open(table).value();
  auto report = emit_onnx({&width, 1}, reader, {.folder = folder.string(), .stem = "s"});
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->tensors[0].name, "model.layers.0.mlp.gate.weight");
  EXPECT_EQ(report->tensors[1].name, "first_row");
  EXPECT_EQ(report->bytes_read, 24u);
}

TEST(EmitOnnx, RecordsProvenanceInMetadata) {
  TestFolder folder;
  const Shard shard = two_weights(1);
  const ShardWidth width{1, &shard};
  ASSERT_TRUE(emit_onnx({&width, 1}, no_files(),
                        {.folder = folder.string(), .stem = "s", .family = "qwen3_moe"}));
  const onnx::ModelProto model = load_model(folder / "s.t1.onnx");
  EXPECT_EQ(model.producer_name(), "moec");
  EXPECT_EQ(model.producer_version(), MOEC_VERSION);
  EXPECT_EQ(model.ir_version(), 8);
  ASSERT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.opset_import(0).version(), 17);
  EXPECT_THAT(model.doc_string(), HasSubstr("L02.mlp of a qwen3_moe model"));
  std::map<std::string, std::string> metadata;
  for (const auto& entry : model.metadata_props()) metadata[entry.key()] = entry.value();
  EXPECT_EQ(metadata["moec.shard"], "L02.mlp");
  EXPECT_EQ(metadata["moec.family"], "qwen3_moe");
  EXPECT_EQ(metadata["moec.layouts"], "channels hidden\n");
}

TEST(EmitOnnx, MapsOpsOneToOne) {
  TestFolder folder;
  const Shard shard = every_op_shard(DType::f32, Layout::channels, 3);
  ASSERT_TRUE(emit_one(shard, folder));
  size_t computed = 0;
  for (const Op& op : shard.ops) {
    const auto* constant = std::get_if<Constant>(&op.data);
    const bool splat = constant && constant->values.size() == 1 && constant->type.elements() > 1;
    computed += splat || (!constant && !std::holds_alternative<Weight>(op.data));
  }
  size_t nodes = 0;
  const onnx::ModelProto model = load_model(folder / "shard.t1.onnx");
  for (const auto& node : model.graph().node()) nodes += node.op_type() != "Identity";
  EXPECT_EQ(nodes, computed);
}

// ---- Refusals -----------------------------------------------------------------------------------

Diagnostic onnx_refusal(const Shard& shard, uint64_t graph_byte_limit = 1 << 30) {
  TestFolder folder;
  const ShardWidth width{1, &shard};
  EmitOptions options{.folder = folder.string(), .stem = "s"};
  options.limits.graph_bytes = graph_byte_limit;
  auto report = emit_onnx({&width, 1}, no_files(), options);
  EXPECT_THAT(files_in(folder), testing::IsEmpty());
  return report ? Diagnostic{} : report.error().front();
}

TEST(EmitOnnxRefuses, ShardsOfOtherForms) {
  Builder b("L00.moe", Form::static_ops);
  b.output("y", b.input("x", {DType::f32, {2}}));
  const Diagnostic error = onnx_refusal(b.finish());
  EXPECT_EQ(error.code, "emit.form");
  EXPECT_THAT(error.cause, HasSubstr("form static"));
  EXPECT_EQ(error.place.shard, "L00.moe");
}

TEST(EmitOnnxRefuses, InvalidShards) {
  Builder b("s", Form::placed);
  b.output("y", b.input("x", {DType::f32, {2}}));
  Shard shard = b.finish();
  shard.outputs.front().value = ValueId{7};
  EXPECT_EQ(onnx_refusal(shard).code, "shard.s1");
}

TEST(EmitOnnxRefuses, ShardsWithState) {
  Builder b("s", Form::placed);
  b.state("k_state", {DType::f32, {2}});
  b.output("y", b.emit(StateRead{"k_state"}, {}));
  const Diagnostic error = onnx_refusal(b.finish());
  EXPECT_EQ(error.code, "emit.state");
  EXPECT_THAT(error.cause, HasSubstr("k_state"));
}

TEST(EmitOnnxRefuses, ElementTypesMissingFromOpset17) {
  Builder eight("s", Form::placed);
  eight.output("y", eight.weight(tensor_view("eight", {DType::f8_e4m3, {2}}), "w"));
  const Diagnostic error = onnx_refusal(eight.finish());
  EXPECT_EQ(error.code, "emit.dtype");
  EXPECT_EQ(error.cause, "ONNX opset 17 does not define weight for f8_e4m3");
  EXPECT_EQ(error.place.op, "w");
  EXPECT_EQ(onnx_refusal(two_weights(1, DType::bf16)).cause,
            "ONNX opset 17 does not define conv for bf16");
}

TEST(EmitOnnxRefuses, ConstantsOutOfTheirTypesRange) {
  for (const auto& [dtype, value] :
       {std::pair{DType::u8, 256.0}, std::pair{DType::u8, -1.0}, std::pair{DType::i32, 0x1p31},
        std::pair{DType::i64, 0x1p63}, std::pair{DType::boolean, 2.0}}) {
    Builder b("s", Form::placed);
    b.output("y", b.constant({dtype, {}}, {value}));
    EXPECT_EQ(onnx_refusal(b.finish()).code, "emit.constant") << dtype_name(dtype) << " " << value;
  }
}

TEST(EmitOnnxRefuses, AnOutputNamedLikeAnotherInput) {
  Builder b("s", Form::placed);
  ValueId x = b.input("x", {DType::f32, {2}});
  b.output("x", b.unary(UnaryFn::neg, x));
  EXPECT_EQ(onnx_refusal(b.finish()).code, "emit.port_name");
}

TEST(EmitOnnxRefuses, GraphsAboveTheSizeLimit) {
  const Diagnostic error = onnx_refusal(two_weights(1), 500);
  EXPECT_EQ(error.code, "emit.graph_too_large");
  EXPECT_THAT(error.cause, HasSubstr("the limit is 500"));
  EXPECT_EQ(error.place.file, "s.t1.onnx");
}

TEST(EmitOnnxRefuses, WeightsMissingFromTheTable) {
  Builder b("s", Form::placed);
  b.output("y", b.unary(UnaryFn::neg, b.weight(tensor_view("absent", {DType::f32, {2}}))));
  EXPECT_EQ(onnx_refusal(b.finish()).code, "weights.unknown_tensor");
}

TEST(EmitOnnxRefuses, AFileAsOutputFolder) {
  TestFolder folder;
  std::ofstream(folder / "plain") << "x";
  const Shard shard = two_weights(1);
  const ShardWidth width{1, &shard};
  auto report = emit_onnx({&width, 1}, no_files(), {.folder = folder / "plain", .stem = "s"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().front().code, "emit.bad_folder");
}

// Limits files to 64 KiB to simulate a full disk; the data file needs more.
TEST(EmitOnnxRefuses, FullDisksKeepingTheOldExport) {
  TestFolder folder;
  ASSERT_TRUE(emit_one(every_op_shard(DType::f16, Layout::rows, 1), folder));
  const std::string graph = read_file(folder / "shard.t1.onnx");
  const std::string data = read_file(folder / "shard.data");
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{65536, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  auto report = emit_one(two_weights(1), folder);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().front().code, "emit.no_space");
  EXPECT_EQ(report.error().front().place.file, folder / "shard.data");
  EXPECT_EQ(read_file(folder / "shard.t1.onnx"), graph);
  EXPECT_EQ(read_file(folder / "shard.data"), data);
  EXPECT_THAT(files_in(folder), ElementsAre("shard.data", "shard.t1.onnx"));
}

// If a checkpoint shrinks during reading, the export stops without leaving a partial file.
TEST(EmitOnnxRefuses, CheckpointsThatShrinkDuringExport) {
  TestFolder folder;
  std::ofstream(folder / "checkpoint", std::ios::binary) << std::string(64, 'x');
  WeightTable table;
  table.files = {{folder / "checkpoint", 64}};
  table.tensors["w"] = {0, 0, {DType::f32, {16}}};
  const WeightReader reader = WeightReader::open(table).value();
  fs::resize_file(folder / "checkpoint", 10);
  Builder b("s", Form::placed);
  b.output("y", b.unary(UnaryFn::neg, b.weight(tensor_view("w", {DType::f32, {16}}))));
  const Shard shard = b.finish();
  const ShardWidth width{1, &shard};
  auto report = emit_onnx({&width, 1}, reader, {.folder = folder.string(), .stem = "s"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().front().code, "weights.file_changed");
  EXPECT_THAT(files_in(folder), ElementsAre("checkpoint"));
}

}  // namespace
}  // namespace moec
