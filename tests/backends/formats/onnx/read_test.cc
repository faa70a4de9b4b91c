#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "backends/formats/onnx/read_onnx.h"
#include "backends/reference/reference.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/backends/formats/onnx/testing.h"
#include "tests/files.h"
#include "tests/frontends/filed_shard.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_onnx_round_trip(const Shard& shard) {
  TestFolder folder;
  auto report = emit_one(shard, folder);
  ASSERT_TRUE(report) << render(report.error());
  auto read = read_onnx(folder / "shard.t1.onnx");
  ASSERT_TRUE(read) << render(read.error()) << print(shard);
  EXPECT_FALSE(has_error(verify(read->shard)));
  const Shard expected = as_filed(shard), got = with_nameless_views(read->shard);
  ASSERT_TRUE(expected == got) << print(expected) << print(got);
}

// ---- Files written by moec ---------------------------------------------------------------------

TEST(ReadOnnx, ReadsBackEveryOp) {
  for (DType dtype : {DType::f32, DType::f16})
    for (Layout layout : {Layout::rows, Layout::channels})
      for (int64_t tokens : {1, 4}) expect_onnx_round_trip(every_op_shard(dtype, layout, tokens));
}

TEST(ReadOnnx, ReadsBackRandomShards) {
  for (uint64_t seed = 0; seed < 150 && !testing::Test::HasFailure(); ++seed)
    expect_onnx_round_trip(random_shard(seed));
}

TEST(ReadOnnx, ReadsBackConstantsOfEachType) {
  Builder b("s", Form::placed);
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
    b.output(std::string(dtype_name(dtype)) + "_list", b.constant({dtype, {3}}, {0, 1, 100}));
    b.output(std::string(dtype_name(dtype)) + "_splat", b.constant({dtype, {2, 3}}, {7}));
    b.output(std::string(dtype_name(dtype)) + "_one", b.constant({dtype, {1, 1}}, {7}));
  }
  b.output("truth", b.constant({DType::boolean, {2}}, {1, 0}));
  b.output("below", b.constant({DType::i64, {2}}, {-0x1p53, 0x1p53}));
  expect_onnx_round_trip(b.finish());
}

TEST(ReadOnnx, RestoresPositionsOfWeightsAndConstants) {
  Builder b("L00.moe", Form::placed);
  ValueId x = b.input("x", {DType::f32, {2}});
  ValueId late = b.unary(UnaryFn::neg, x, "late");
  b.weight(seeded_view(1, {DType::f32, {2}}), "unused");
  ValueId early = b.weight(seeded_view(2, {DType::f32, {2}}), "early");
  ValueId y = b.unary(UnaryFn::abs, late, "y");
  b.output("out", b.add(y, early));
  b.constant({DType::f32, {}}, {3}, "last");
  expect_onnx_round_trip(b.finish());
}

TEST(ReadOnnx, MapsWeightsToDataFileRanges) {
  TestFolder folder;
  ASSERT_TRUE(emit_one(every_op_shard(DType::f16, Layout::rows, 2), folder));
  auto read = read_onnx(folder / "shard.t1.onnx").value();
  ASSERT_EQ(read.weights.files.size(), 1u);
  EXPECT_EQ(read.weights.files[0].path, folder / "shard.data");
  EXPECT_EQ(read.weights.files[0].bytes, fs::file_size(folder / "shard.data"));
  ASSERT_EQ(read.weights.tensors.size(), 2u);
  const TensorRange* columns = read.weights.find("columns");
  ASSERT_NE(columns, nullptr);
  EXPECT_EQ(columns->offset, 65536u);
  EXPECT_EQ(columns->type, (Type{DType::f16, {5, 6}}));
}

TEST(ReadOnnx, EvaluatesLikeTheEmittedShard) {
  for (DType dtype : {DType::f32, DType::f16})
    for (Layout layout : {Layout::rows, Layout::channels}) {
      TestFolder folder;
      const Shard shard = every_op_shard(dtype, layout, 3);
      ASSERT_TRUE(emit_one(shard, folder));
      auto read = read_onnx(folder / "shard.t1.onnx").value();
      const std::vector<Tensor> inputs = seeded_inputs(shard, 5);
      auto expected = evaluate(shard, inputs);
      ASSERT_TRUE(expected) << render(expected.error());
      auto executor = Executor::create(read.shard, read.weights);
      ASSERT_TRUE(executor) << render(executor.error());
      EXPECT_EQ(executor->run(inputs).value(), *expected);
    }
}

// ---- Edited and foreign files -------------------------------------------------------------------

// Fixture with a small model for tests to edit: x + w, multiplied by a constant, then summed.
class ChangedModel : public testing::Test {
 protected:
  ChangedModel() {
    Builder b("L01.mlp", Form::placed);
    ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 4, 2));
    ValueId w = b.weight(seeded_view(1, {DType::f32, {2, 4}}), "w");
    ValueId c = b.constant({DType::f32, {1, 4}}, {1, 2, 3, 4}, "c");
    ValueId y = b.mul(b.add(x, w, "sum"), c, "scaled");
    b.output("out", b.reduce(ReduceFn::sum, b.slice(y, 1, 1, 3, "part"), 1));
    EXPECT_TRUE(emit_one(b.finish(), folder_));
    EXPECT_TRUE(model_.ParseFromString(read_file(path_)));
  }

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  onnx::NodeProto& node(std::string_view type) {
    for (onnx::NodeProto& node : *graph().mutable_node())
      if (node.op_type() == type) return node;
    ADD_FAILURE() << "no node " << type;
    return *graph().mutable_node(0);
  }
  onnx::TensorProto& tensor(std::string_view name) {
    for (onnx::TensorProto& tensor : *graph().mutable_initializer())
      if (tensor.name() == name) return tensor;
    ADD_FAILURE() << "no initializer " << name;
    return *graph().mutable_initializer(0);
  }
  void set_external(const std::string& key, const std::string& value) {
    for (auto& entry : *tensor("w").mutable_external_data())
      if (entry.key() == key) entry.set_value(value);
  }
  void set_metadata(const std::string& key, const std::string& value) {
    for (auto& entry : *model_.mutable_metadata_props())
      if (entry.key() == key) return entry.set_value(value);
    auto& entry = *model_.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  Result<LoadedShard> read() {
    write_file(path_, model_.SerializeAsString());
    return read_onnx(path_);
  }
  // Returns the first finding and checks that it is an error in the model's file.
  Diagnostic error() {
    auto result = read();
    if (result) return {};
    EXPECT_EQ(result.error().front().place.file, path_);
    EXPECT_EQ(result.error().front().severity, Severity::error);
    return result.error().front();
  }
  std::string code() { return error().code; }

  TestFolder folder_;
  std::string path_ = folder_ / "shard.t1.onnx";
  onnx::ModelProto model_;
};

TEST_F(ChangedModel, ReadsWithoutMetadata) {
  model_.clear_metadata_props();
  graph().set_name("some graph");
  auto result = read();
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_EQ(result->shard.name, "some_graph");
  std::vector<std::string_view> ops;
  for (const Op& op : result->shard.ops) ops.push_back(mnemonic(op.data));
  EXPECT_THAT(ops, ElementsAre("weight", "add", "constant", "mul", "slice", "reduce_sum"));
  EXPECT_EQ(result->shard.type(result->shard.inputs.front()).layout, Layout::plain);
}

TEST_F(ChangedModel, CountsNegativeAxesFromTheEnd) {
  node("ReduceSum").set_input(1, "minus_one");
  node("Slice").set_input(2, "far");
  for (const auto& [name, value] : {std::pair{"minus_one", int64_t{-1}},
                                    std::pair{"far", std::numeric_limits<int64_t>::max()}}) {
    auto& added = *graph().add_initializer();
    added.set_name(name);
    added.set_data_type(onnx::TensorProto::INT64);
    added.add_dims(1);
    added.add_int64_data(value);
  }
  auto result = read();
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_EQ(std::get<Slice>(result->shard.ops[OpId{4}].data), (Slice{1, 1, 3}));
  EXPECT_EQ(std::get<Reduce>(result->shard.ops[OpId{5}].data), (Reduce{ReduceFn::sum, 1}));
}

TEST_F(ChangedModel, ReadsTypedDataLikeRawData) {
  onnx::TensorProto& c = tensor("c");
  c.clear_raw_data();
  for (float value : {1, 2, 3, 4}) c.add_float_data(value);
  auto result = read();
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_EQ(std::get<Constant>(result->shard.ops[OpId{1}].data).values,
            (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(ChangedModel, ReadsIdentityAsAnAlias) {
  auto& identity = *graph().add_node();
  identity.set_op_type("Identity");
  identity.add_input("sum");
  identity.add_output("sum_again");
  auto& port = *graph().add_output() = graph().input(0);
  port.set_name("sum_again");
  auto result = read();
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_EQ(result->shard.ops.size(), 6u);
  EXPECT_EQ(result->shard.values[result->shard.outputs[1].value].name, "sum");
}

TEST_F(ChangedModel, RejectsUnsupportedVersionsAndDomains) {
  model_.set_ir_version(9);
  EXPECT_EQ(code(), "onnx.ir_version");
  model_.set_ir_version(8);
  model_.mutable_opset_import(0)->set_version(18);
  EXPECT_EQ(error().cause, "the model must import only opset 17 of the default domain");
  model_.mutable_opset_import(0)->set_version(17);
  auto& contrib = *model_.add_opset_import();
  contrib.set_domain("com.microsoft");
  contrib.set_version(2);
  EXPECT_EQ(error().cause, "version 2 of domain \"com.microsoft\" is unsupported");
  contrib.set_version(1);
  contrib.set_domain("com.example");
  EXPECT_EQ(error().cause, "version 1 of domain \"com.example\" is unsupported");
  model_.clear_opset_import();
  EXPECT_EQ(code(), "onnx.opset");
}

TEST_F(ChangedModel, RejectsFunctions) {
  model_.add_functions()->set_name("f");
  EXPECT_EQ(code(), "onnx.unsupported");
}

TEST_F(ChangedModel, RejectsUnknownOps) {
  node("Mul").set_op_type("LSTM");
  EXPECT_EQ(error().cause, "op LSTM is unsupported");
  EXPECT_EQ(error().place.op, "L01/mlp/scaled");
  node("LSTM").set_domain("com.microsoft");
  EXPECT_EQ(error().cause, "op com.microsoft::LSTM is unsupported");
}

TEST_F(ChangedModel, RejectsUnknownAttributes) {
  auto& attribute = *node("Mul").add_attribute();
  attribute.set_name("alpha");
  attribute.set_type(onnx::AttributeProto::FLOAT);
  EXPECT_EQ(code(), "onnx.attribute");
  EXPECT_THAT(error().cause, HasSubstr("\"alpha\" of Mul"));
  node("Mul").clear_attribute();
  node("ReduceSum").mutable_attribute(0)->set_i(0);
  EXPECT_THAT(error().cause, HasSubstr("\"keepdims\" of ReduceSum"));
}

TEST_F(ChangedModel, RejectsDynamicShapes) {
  auto& shape = *graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("tokens");
  EXPECT_EQ(code(), "onnx.dynamic_shape");
  shape.mutable_dim(0)->clear_value();
  EXPECT_EQ(code(), "onnx.dynamic_shape");
  graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(code(), "onnx.dynamic_shape");
  graph().mutable_input(0)->mutable_type()->mutable_sequence_type();
  EXPECT_EQ(code(), "onnx.dynamic_shape");
}

TEST_F(ChangedModel, RejectsLargeAndNonpositiveSizes) {
  auto& shape = *graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (int64_t size : {int64_t{0}, int64_t{-2}, std::numeric_limits<int64_t>::max()}) {
    shape.mutable_dim(0)->set_dim_value(size);
    EXPECT_EQ(code(), "onnx.shape") << size;
  }
  shape.mutable_dim(0)->set_dim_value(1);
  for (int i = 0; i < 100000; ++i) shape.add_dim()->set_dim_value(1);
  EXPECT_EQ(error().cause, "rank 100002 is above the limit of 5");
}

TEST_F(ChangedModel, RejectsUnsupportedElementTypes) {
  graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::DOUBLE);
  EXPECT_EQ(code(), "onnx.dtype");
  tensor("w").set_data_type(onnx::TensorProto::STRING);
  EXPECT_EQ(code(), "onnx.dtype");
}

TEST_F(ChangedModel, RejectsDataThatContradictsItsTensor) {
  tensor("c").mutable_raw_data()->pop_back();
  EXPECT_EQ(code(), "onnx.tensor_data");
  tensor("c").mutable_raw_data()->resize(12);
  EXPECT_EQ(error().cause, "the data has 3 elements, expected f32[1,4]");
  EXPECT_EQ(error().place.tensor, "c");
  tensor("c").set_dims(1, int64_t{1} << 40);
  EXPECT_EQ(code(), "onnx.tensor_data");
  tensor("c").set_dims(1, -4);
  EXPECT_EQ(code(), "onnx.shape");
}

TEST_F(ChangedModel, RejectsIntegersInexactAsDouble) {
  onnx::TensorProto& c = tensor("c");
  c.clear_raw_data();
  c.set_data_type(onnx::TensorProto::INT64);
  for (int64_t value : {int64_t{1}, int64_t{2}, int64_t{3}, (int64_t{1} << 53) + 1})
    c.add_int64_data(value);
  EXPECT_EQ(code(), "onnx.tensor_data");
}

TEST_F(ChangedModel, RejectsInvalidExternalLocations) {
  for (const char* location :
       {"", ".", "..", "../shard.data", "/etc/passwd", "a/shard.data", "a\\shard.data"}) {
    set_external("location", location);
    EXPECT_EQ(code(), "onnx.external_data") << location;
    EXPECT_THAT(error().cause, HasSubstr("is not a bare file name")) << location;
  }
  set_external("location", std::string("shard.data\0x", 12));
  EXPECT_THAT(error().cause, HasSubstr("is not a bare file name"));
  set_external("location", "absent.data");
  EXPECT_THAT(error().cause, HasSubstr("is missing or is not a regular file"));
  fs::create_symlink(folder_ / "shard.data", folder_ / "link.data");
  set_external("location", "link.data");
  EXPECT_THAT(error().cause, HasSubstr("is missing or is not a regular file"));
  fs::create_directory(folder_ / "folder.data");
  set_external("location", "folder.data");
  EXPECT_THAT(error().cause, HasSubstr("is missing or is not a regular file"));
}

TEST_F(ChangedModel, RejectsInvalidExternalRanges) {
  for (const char* number : {"", "-1", "1e3", "18446744073709551616", "4 "}) {
    set_external("offset", number);
    EXPECT_THAT(error().cause, HasSubstr("is not a number of bytes")) << number;
  }
  for (const char* number : {"1", "18446744073709551615", "18446744073709551600"}) {
    set_external("offset", number);
    EXPECT_THAT(error().cause, HasSubstr("exceed")) << number;
  }
  EXPECT_EQ(code(), "onnx.external_data");
  set_external("offset", "0");
  set_external("length", "31");
  EXPECT_EQ(error().cause, "length 31 does not match f32[2,4]");
  EXPECT_EQ(error().place.tensor, "w");
}

TEST_F(ChangedModel, RejectsATruncatedDataFile) {
  fs::resize_file(folder_ / "shard.data", 31);
  EXPECT_THAT(error().cause, HasSubstr("bytes [0, 0 + 32) exceed"));
}

TEST_F(ChangedModel, RejectsMissingAndDuplicateNames) {
  node("Mul").set_input(0, "nowhere");
  EXPECT_EQ(code(), "onnx.undefined");
  EXPECT_EQ(error().place.tensor, "nowhere");
  node("Mul").set_input(0, "out");  // defined later
  EXPECT_EQ(code(), "onnx.undefined");
  node("Mul").set_input(0, "sum");
  node("Mul").set_output(0, "sum");
  EXPECT_EQ(code(), "onnx.duplicate_name");
  node("Mul").set_output(0, "");
  EXPECT_EQ(code(), "onnx.undefined");  // the next op uses it
  node("Mul").set_output(0, "scaled");
  *graph().add_initializer() = graph().initializer(0);
  EXPECT_EQ(code(), "onnx.duplicate_name");
  graph().mutable_initializer(graph().initializer_size() - 1)->set_name("");
  EXPECT_EQ(code(), "onnx.duplicate_name");
  graph().mutable_initializer()->RemoveLast();
  graph().mutable_input(0)->set_name("w");
  EXPECT_EQ(code(), "onnx.duplicate_name");
}

TEST_F(ChangedModel, RejectsTypesThatContradictTheOps) {
  auto& port = *graph().mutable_output(0)->mutable_type()->mutable_tensor_type();
  port.mutable_shape()->mutable_dim(0)->set_dim_value(3);
  EXPECT_EQ(code(), "onnx.type_mismatch");
  EXPECT_THAT(error().cause,
              HasSubstr("the graph states type f32[3,1], but its ops produce f32[2,1]"));
  port.mutable_shape()->mutable_dim(0)->set_dim_value(2);
  graph().mutable_value_info(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::FLOAT16);
  EXPECT_EQ(code(), "onnx.type_mismatch");
}

TEST_F(ChangedModel, RejectsOperandsThatViolateConstraints) {
  node("Mul").set_input(1, "i64[1]");
  EXPECT_EQ(code(), "binary.c2");
  node("Mul").clear_input();
  EXPECT_EQ(error().cause, "Mul has no input");
  node("Mul").add_input("sum");
  EXPECT_EQ(code(), "binary.c1");
}

TEST_F(ChangedModel, RejectsNonconstantSizesAndAxes) {
  node("Slice").set_input(1, "x");
  EXPECT_EQ(code(), "onnx.constant_input");
  node("Slice").set_input(1, "c");
  EXPECT_EQ(error().cause, "sizes and axes must be inline i64 vectors");
  while (node("Slice").input_size() > 1) node("Slice").mutable_input()->RemoveLast();
  EXPECT_EQ(code(), "onnx.constant_input");
}

TEST_F(ChangedModel, RejectsMetadataThatContradictsTheGraph) {
  for (const char* sources :
       {"3 1", "0 0", "x", "0,1", "99999999999", "-1", "0 1 2 3 4 5 6 7 8 9", "0 500"}) {
    set_metadata("moec.sources", sources);
    EXPECT_EQ(code(), "onnx.metadata") << sources;
  }
  set_metadata("moec.sources", "0 2");
  set_metadata("moec.layouts", "diagonal x\n");
  EXPECT_EQ(code(), "onnx.metadata");
  set_metadata("moec.layouts", "rows");
  EXPECT_EQ(code(), "onnx.metadata");
  // The verifier rejects a layout that does not fit the sizes.
  set_metadata("moec.layouts", "channels x\n");
  EXPECT_FALSE(read());
  set_metadata("moec.layouts", "");
  set_metadata("moec.names", "x w\nx c\nx sum\n");  // labels are made unique
  EXPECT_TRUE(read());
}

TEST(ReadOnnxFile, RejectsMissingAndInvalidFiles) {
  TestFolder folder;
  auto code = [](const std::string& path) {
    auto read = read_onnx(path);
    return read ? std::string() : read.error().front().code;
  };
  EXPECT_EQ(code(folder / "absent.onnx"), "onnx.open");
  EXPECT_EQ(code(folder.string()), "onnx.open");
  write_file(folder / "empty.onnx", "");
  EXPECT_EQ(code(folder / "empty.onnx"), "onnx.parse");
  write_file(folder / "text.onnx", "this is a text");
  EXPECT_EQ(code(folder / "text.onnx"), "onnx.parse");
  write_file(folder / "large.onnx", "");
  fs::resize_file(folder / "large.onnx", uint64_t{1} << 31);
  EXPECT_EQ(code(folder / "large.onnx"), "onnx.too_large");
}

// A damaged file yields a finding or a shard that verifies, never a crash.
TEST(ReadOnnxFile, SurvivesDamagedBytes) {
  TestFolder folder;
  ASSERT_TRUE(emit_one(every_op_shard(DType::f16, Layout::channels, 2), folder));
  const std::string path = folder / "shard.t1.onnx";
  const std::string good = read_file(path);
  std::mt19937_64 random(11);
  size_t refused = 0, accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      const size_t at = random() % bytes.size();
      if (random() % 8 == 0) bytes.resize(at + 1);
      if (random() % 8 == 0) bytes.insert(at, bytes, random() % bytes.size(), random() % 40);
      bytes[at % bytes.size()] = static_cast<char>(random());
    }
    auto read = parse_onnx(std::as_bytes(std::span(bytes)), path);
    ASSERT_FALSE(read && has_error(verify(read->shard)));
    ++(read ? accepted : refused);
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(accepted, 10u);
}

}  // namespace
}  // namespace moec
