#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/formats/coreml/read_coreml.h"
#include "backends/reference/reference.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/backends/formats/coreml/package_weights.h"
#include "tests/backends/formats/onnx/testing.h"
#include "tests/files.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string_view> mnemonics(const Shard& shard) {
  std::vector<std::string_view> names;
  for (const Op& op : shard.ops) names.push_back(mnemonic(op.data));
  return names;
}

std::vector<Tensor> run(const LoadedShard& loaded, const std::vector<Tensor>& inputs) {
  auto executor = Executor::create(loaded.shard, loaded.weights);
  EXPECT_TRUE(executor) << render(executor.error());
  return executor->run(inputs).value();
}

// Fixture with a valid program for tests to edit. Checks that each finding names the model's file.
class CoremlProgram : public testing::Test {
 protected:
  mlmodel::Operation& operation(std::string_view name) { return program_.operation(name); }
  mlmodel::Value& value(std::string_view name) {
    return operation(name).mutable_attributes()->at("val");
  }
  std::string& metadata(const std::string& key) {
    return (*program_.description().mutable_metadata()->mutable_userdefined())[key];
  }
  mlmodel::ArrayFeatureType& port(mlmodel::FeatureDescription& feature) {
    return *feature.mutable_type()->mutable_multiarraytype();
  }
  Result<LoadedShard> read(const CoremlReadOptions& options = {}) {
    return read_coreml(program_.write(folder_.string()), options);
  }
  LoadedShard good(const CoremlReadOptions& options = {}) {
    auto result = read(options);
    EXPECT_TRUE(result) << render(result.error());
    return result ? *std::move(result) : LoadedShard();
  }
  Diagnostic error(const CoremlReadOptions& options = {}) {
    auto result = read(options);
    if (result) return {};
    const Diagnostic& finding = result.error().front();
    EXPECT_EQ(finding.place.file, model_);
    EXPECT_EQ(finding.severity, Severity::error);
    EXPECT_FALSE(finding.cause.empty());
    EXPECT_FALSE(finding.next_step.empty());
    return finding;
  }
  std::string code(const CoremlReadOptions& options = {}) { return error(options).code; }

  TestFolder folder_;
  std::string model_ = folder_ / "shard.mlpackage/Data/com.apple.CoreML/model.mlmodel";
  std::string blobs_ = folder_ / "shard.mlpackage/Data/com.apple.CoreML/weights/weight.bin";
  MilProgram program_ = sample_program();
};

// ---- Foreign programs --------------------------------------------------------------------------

TEST_F(CoremlProgram, ReadsPlainTypesWithoutMetadata) {
  const LoadedShard loaded = good();
  EXPECT_EQ(loaded.shard.name, "main");
  EXPECT_EQ(loaded.shard.form, Form::placed);
  EXPECT_FALSE(has_error(verify(loaded.shard)));
  EXPECT_THAT(mnemonics(loaded.shard),
              ElementsAre("weight", "constant", "add", "mul", "slice", "reduce_sum"));
  EXPECT_EQ(loaded.shard.type(loaded.shard.inputs[0]), (Type{DType::f16, {2, 4}}));
  EXPECT_EQ(loaded.shard.values[loaded.shard.outputs[0].value].name, "out");
}

TEST_F(CoremlProgram, EvaluatesWithWeightsFromItsFile) {
  const LoadedShard loaded = good();
  ASSERT_EQ(loaded.weights.files.size(), 1u);
  EXPECT_EQ(loaded.weights.files[0].path, blobs_);
  EXPECT_EQ(loaded.weights.files[0].bytes, fs::file_size(blobs_));
  EXPECT_EQ(loaded.weights.find("w")->offset, 128u);
  const Tensor x{{DType::f16, {2, 4}}, {0, 1, 0, 0, 0, 0, 0, -1}};
  EXPECT_THAT(run(loaded, {x})[0].data, ElementsAre(2 * 3 + 3 * 3 + 4 * 4, 2 * 6 + 3 * 7 + 4 * 7));
}

TEST_F(CoremlProgram, ReadsPackagesAndStandaloneModels) {
  program_.write(folder_.string());
  EXPECT_TRUE(read_coreml(model_));
  fs::create_directory(folder_ / "alone");
  fs::copy_file(model_, folder_ / "alone/other.mlmodel");
  auto without_weights = read_coreml(folder_ / "alone/other.mlmodel");
  ASSERT_FALSE(without_weights);
  EXPECT_EQ(without_weights.error().front().code, "coreml.blob");
  fs::create_directory(folder_ / "alone/weights");
  fs::copy_file(blobs_, folder_ / "alone/weights/weight.bin");
  EXPECT_TRUE(read_coreml(folder_ / "alone/other.mlmodel"));
}

TEST_F(CoremlProgram, ReadsConvolutionsWithoutMetadata) {
  for (const Dims& dims : {Dims{1, 4, 3, 1}, Dims{1, 4, 1, 3}}) {
    const Dims result = {1, 2, dims[2], dims[3]};
    program_ = MilProgram();
    program_.input("x", dims);
    program_.weight("w", {2, 4, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
    program_.text("pad_type", "valid");
    program_.ints("ones", {1, 1});
    program_.ints("pad", {0, 0, 0, 0});
    program_.integer("groups", 1);
    program_.op("conv", "y",
                {{"x", {"x"}},
                 {"weight", {"w"}},
                 {"strides", {"ones"}},
                 {"pad_type", {"pad_type"}},
                 {"pad", {"pad"}},
                 {"dilations", {"ones"}},
                 {"groups", {"groups"}}},
                result);
    program_.output("y", result);
    const LoadedShard loaded = good();
    EXPECT_THAT(mnemonics(loaded.shard), ElementsAre("weight", "reshape", "conv", "reshape"));
    EXPECT_EQ(loaded.shard.type(loaded.shard.outputs[0].value), (Type{DType::f16, result}));
    EXPECT_EQ(loaded.shard.values[loaded.shard.outputs[0].value].name, "y");
  }
}

TEST_F(CoremlProgram, CountsNegativeAxesFromTheEnd) {
  value("axes").mutable_immediatevalue()->mutable_tensor()->mutable_ints()->set_values(0, -1);
  value("size").mutable_immediatevalue()->mutable_tensor()->mutable_ints()->set_values(1, -1);
  const LoadedShard loaded = good();
  EXPECT_EQ(std::get<Slice>(loaded.shard.ops[OpId{4}].data), (Slice{1, 1, 3}));
  EXPECT_EQ(std::get<Reduce>(loaded.shard.ops[OpId{5}].data), (Reduce{ReduceFn::sum, 1}));
}

TEST_F(CoremlProgram, AcceptsInlineArguments) {
  auto& keep = *operation("out").mutable_inputs()->at("keep_dims").mutable_arguments(0);
  *keep.mutable_value() = value("keep");
  // An unreferenced const becomes an unused value.
  EXPECT_EQ(mnemonics(good().shard).at(5), "constant");
  EXPECT_EQ(mnemonics(good().shard).at(6), "reduce_sum");
}

TEST_F(CoremlProgram, ReadsIdentityAsAnAlias) {
  program_.op("identity", "x_again", {{"x", {"x"}}}, {2, 4});
  program_.output("x_again", {2, 4});
  const LoadedShard loaded = good();
  EXPECT_EQ(loaded.shard.ops.size(), 6u);
  EXPECT_EQ(loaded.shard.outputs[1].name, "x_again");
  EXPECT_EQ(loaded.shard.outputs[1].value, loaded.shard.inputs[0]);
}

TEST_F(CoremlProgram, InfersOneReshapeSize) {
  program_.ints("shape", {-1, 4});
  program_.op("reshape", "flat", {{"x", {"x"}}, {"shape", {"shape"}}}, {2, 4});
  program_.output("flat", {2, 4});
  EXPECT_EQ(std::get<Reshape>(good().shard.ops[OpId{6}].data), (Reshape{{2, 4}}));
  auto& shape = *value("shape").mutable_immediatevalue()->mutable_tensor()->mutable_ints();
  shape.set_values(1, 3);
  EXPECT_EQ(code(), "coreml.argument");
  shape.set_values(1, -1);
  EXPECT_EQ(code(), "coreml.argument");
  shape.set_values(1, 0);
  EXPECT_EQ(code(), "coreml.argument");
}

TEST_F(CoremlProgram, AllowsOneWritePerState) {
  program_.state("k_state", {2, 4});
  program_.op("read_state", "before", {{"input", {"k_state"}}}, {2, 4});
  program_.op("add", "after", {{"x", {"before"}}, {"y", {"x"}}}, {2, 4});
  program_.write_state("k_state", "after");
  program_.op("read_state", "read_back", {{"input", {"k_state"}}}, {2, 4});
  program_.op("add", "twice", {{"x", {"read_back"}}, {"y", {"after"}}}, {2, 4});
  program_.output("twice", {2, 4});
  const LoadedShard loaded = good();
  EXPECT_THAT(loaded.shard.states, ElementsAre(State{"k_state", {DType::f16, {2, 4}}}));
  EXPECT_THAT(mnemonics(loaded.shard),
              ElementsAre("weight", "constant", "add", "mul", "slice", "reduce_sum", "state_read",
                          "add", "state_write", "add"));
  program_.write_state("k_state", "twice");
  EXPECT_EQ(code(), "shard.s7");
}

TEST_F(CoremlProgram, ReadsConstantsListedInMetadata) {
  metadata("moec.constants") = "w\n";
  LoadedShard loaded = good();
  EXPECT_THAT(std::get<Constant>(loaded.shard.ops[OpId{0}].data).values,
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_TRUE(loaded.weights.tensors.empty());
  program_.halves("ones", {2, 4}, std::vector<float>(8, 1));
  EXPECT_THAT(std::get<Constant>(good().shard.ops[OpId{6}].data).values, ElementsAre(1));
}

// ---- The model ---------------------------------------------------------------------------------

TEST_F(CoremlProgram, RejectsUnsupportedVersions) {
  for (int version : {0, 5, 10}) {
    program_.model().set_specificationversion(version);
    EXPECT_EQ(code(), "coreml.spec_version") << version;
  }
  program_.model().set_specificationversion(8);  // the program's opset is CoreML8
  EXPECT_EQ(code(), "coreml.opset");
  program_.model().set_specificationversion(9);
  auto& bodies = *program_.function().mutable_block_specializations();
  bodies["CoreML7"] = program_.block();
  EXPECT_EQ(code(), "coreml.opset");
  bodies.erase("CoreML8");
  EXPECT_EQ(code(), "coreml.opset");
  program_.function().set_opset("CoreML7");
  EXPECT_TRUE(read());
  program_.function().set_opset("coreml7");
  EXPECT_EQ(code(), "coreml.opset");
}

TEST_F(CoremlProgram, RejectsVersionsTooLowForFeatures) {
  auto lowered = [&](int version) {
    const std::string opset = "CoreML" + std::to_string(version - 1);
    const mlmodel::Block block = program_.function().block_specializations().begin()->second;
    program_.model().set_specificationversion(version);
    program_.function().set_opset(opset);
    program_.function().mutable_block_specializations()->clear();
    (*program_.function().mutable_block_specializations())[opset] = block;
  };
  program_.state("k_state", {2, 4});
  lowered(8);
  EXPECT_EQ(error().cause, "specification version 8 does not support states or several functions");
  program_ = sample_program();
  lowered(6);
  EXPECT_EQ(error().cause, "specification version 6 does not support f16 ports");
  lowered(7);
  EXPECT_TRUE(read());
}

TEST_F(CoremlProgram, SelectsAFunction) {
  EXPECT_TRUE(read({.function = "main"}));
  EXPECT_EQ(code({.function = "t16"}), "coreml.function");
  auto& functions = *program_.model().mutable_mlprogram()->mutable_functions();
  functions["t16"] = program_.function();
  EXPECT_EQ(code(), "coreml.function");  // no function is described
  mlmodel::ModelDescription& description = program_.description();
  for (const char* name : {"main", "t16"}) {
    mlmodel::FunctionDescription& described = *description.add_functions();
    described.set_name(name);
    *described.mutable_input() = description.input();
    *described.mutable_output() = description.output();
  }
  EXPECT_EQ(code(), "coreml.function");  // no function is the default
  description.set_defaultfunctionname("main");
  EXPECT_EQ(code(), "coreml.function");  // the model itself declares ports
  description.clear_input();
  description.clear_output();
  EXPECT_EQ(good().shard.name, "main");
  metadata("moec.t16.shard") = "L00.moe";
  EXPECT_EQ(good({.function = "t16"}).shard.name, "L00.moe");
  description.mutable_functions(1)->set_name("t17");
  EXPECT_EQ(code(), "coreml.function");
}

TEST_F(CoremlProgram, RejectsFunctionAndProgramAttributes) {
  auto& attributes = *program_.model().mutable_mlprogram()->mutable_attributes();
  attributes["buildInfo"];
  EXPECT_TRUE(read());
  attributes["other"];
  EXPECT_EQ(code(), "coreml.function");
  attributes.erase("other");
  (*program_.function().mutable_attributes())["CoreML_InputDefaultValues"];
  EXPECT_EQ(code(), "coreml.function");
}

TEST_F(CoremlProgram, RejectsUnsupportedFields) {
  program_.write(folder_.string());
  std::ofstream(model_, std::ios::binary | std::ios::app) << "\x50\x01";  // isUpdatable = 10
  auto result = read_coreml(model_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().front().code, "coreml.parse");
  EXPECT_EQ(result.error().front().cause, "field 10 of Model is unsupported");
}

// ---- Types and ports ---------------------------------------------------------------------------

TEST_F(CoremlProgram, RejectsTypesThatContradictTheOperations) {
  auto& type = *operation("sum").mutable_outputs(0)->mutable_type()->mutable_tensortype();
  type.mutable_dimensions(1)->mutable_constant()->set_size(5);
  EXPECT_EQ(code(), "coreml.type_mismatch");
  EXPECT_EQ(error().cause, "the program states type f16[2,5], but its operations produce f16[2,4]");
  EXPECT_EQ(error().place.op, "sum");
  type.mutable_dimensions(1)->mutable_constant()->set_size(4);
  type.set_datatype(mlmodel::FLOAT32);
  EXPECT_EQ(code(), "coreml.type_mismatch");
  type.set_datatype(mlmodel::INT8);
  EXPECT_EQ(code(), "coreml.dtype");
}

TEST_F(CoremlProgram, RejectsInvalidSizes) {
  auto& type = *operation("sum").mutable_outputs(0)->mutable_type()->mutable_tensortype();
  type.mutable_dimensions(0)->mutable_unknown();
  EXPECT_EQ(code(), "coreml.dynamic_shape");
  type.mutable_dimensions(0)->mutable_unknown()->set_variadic(true);
  EXPECT_EQ(code(), "coreml.shape");
  for (uint64_t size : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}}) {
    type.mutable_dimensions(0)->mutable_constant()->set_size(size);
    EXPECT_EQ(code(), "coreml.shape") << size;
  }
  type.mutable_dimensions(0)->mutable_constant()->set_size(2);
  type.set_rank(3);
  EXPECT_EQ(code(), "coreml.shape");
  type.set_rank(100002);
  for (int i = 0; i < 100000; ++i) type.add_dimensions()->mutable_constant()->set_size(1);
  EXPECT_EQ(code(), "coreml.shape");
}

TEST_F(CoremlProgram, RejectsDescriptionsThatContradictTheProgram) {
  mlmodel::ModelDescription& description = program_.description();
  auto& input = *description.mutable_input(0);
  input.set_name("y");
  EXPECT_EQ(code(), "coreml.description");
  input.set_name("x");
  port(input).set_shape(1, 5);
  EXPECT_EQ(error().cause, "the description states type f16[2,5], but the program states f16[2,4]");
  port(input).set_shape(1, 4);
  port(input).set_datatype(mlmodel::ArrayFeatureType::FLOAT32);
  EXPECT_EQ(code(), "coreml.description");
  port(input).set_datatype(mlmodel::ArrayFeatureType::DOUBLE);
  EXPECT_EQ(error().cause, "a port has the unsupported element type 65600");
  port(input).set_datatype(mlmodel::ArrayFeatureType::FLOAT16);
  port(*description.mutable_output(0)).set_shape(0, 3);
  EXPECT_EQ(error().cause, "the description has no such output of type f16[2,1]");
  port(*description.mutable_output(0)).set_shape(0, 2);
  *description.add_output() = description.output(0);
  EXPECT_EQ(error().cause, "two ports have this name");
  description.mutable_output(1)->set_name("other");
  EXPECT_EQ(error().cause, "the description has 2 outputs, but the program has 1");
  description.mutable_output()->RemoveLast();
  *description.add_state() = description.input(0);
  EXPECT_EQ(error().cause, "a state must be an array");
  description.clear_state();
  input.mutable_type()->clear_Type();
  EXPECT_EQ(error().cause, "a port must be an array");
}

TEST_F(CoremlProgram, RejectsUnknownInputsAndStates) {
  mlmodel::ModelDescription& description = program_.description();
  *description.add_input() = description.input(0);
  description.mutable_input(1)->set_name("y");
  EXPECT_EQ(error().cause,
            "the description has 2 inputs and 0 states, but the program has 1 and 0");
  program_ = sample_program();
  program_.state("k_state", {2, 4});
  program_.description().mutable_state(0)->set_name("v_state");
  EXPECT_EQ(code(), "coreml.description");
}

// ---- Ranges ------------------------------------------------------------------------------------

class CoremlRange : public CoremlProgram {
 protected:
  CoremlRange() {
    program_ = MilProgram();
    program_.input("x", {1, 4});
    program_.op("abs", "out", {{"x", {"x"}}}, {1, 4});
    program_.output("out", {1, 4});
    open(*program_.function().mutable_inputs(0)->mutable_type());
    open(*operation("out").mutable_outputs(0)->mutable_type());
    set_range(1, 16);
    port(*program_.description().mutable_output(0)).clear_shape();
    metadata("moec.range") = "1 16";
  }
  static void open(mlmodel::ValueType& type) {
    type.mutable_tensortype()->mutable_dimensions(0)->mutable_unknown();
  }
  void set_range(uint64_t least, int64_t largest) {
    mlmodel::ArrayFeatureType& x = port(*program_.description().mutable_input(0));
    x.mutable_shaperange()->clear_sizeranges();
    for (auto [lower, upper] : {std::pair{least, largest}, std::pair{uint64_t{4}, int64_t{4}}}) {
      mlmodel::SizeRange& range = *x.mutable_shaperange()->add_sizeranges();
      range.set_lowerbound(lower);
      range.set_upperbound(upper);
    }
  }
  Dims dims(int64_t tokens) {
    const LoadedShard loaded = good({.tokens = tokens});
    return loaded.shard.type(loaded.shard.outputs.at(0).value).dims;
  }
};

TEST_F(CoremlRange, ReadsASelectedWidth) {
  EXPECT_EQ(dims(0), (Dims{1, 4}));
  EXPECT_EQ(dims(1), (Dims{1, 4}));
  EXPECT_EQ(dims(7), (Dims{7, 4}));
  EXPECT_EQ(dims(16), (Dims{16, 4}));
  EXPECT_EQ(code({.tokens = 17}), "coreml.dynamic_shape");
  EXPECT_EQ(code({.tokens = -1}), "coreml.dynamic_shape");
}

TEST_F(CoremlRange, RequiresSizesLinearInTheWidth) {
  auto& shape = *port(*program_.description().mutable_input(0)).mutable_shape();
  set_range(101, 116);
  shape.Set(0, 101);
  EXPECT_EQ(dims(3), (Dims{103, 4}));
  set_range(2, 32);
  shape.Set(0, 2);
  EXPECT_EQ(dims(3), (Dims{6, 4}));
  set_range(2, 33);
  EXPECT_EQ(code(), "coreml.dynamic_shape");
  set_range(2, -1);
  EXPECT_EQ(code(), "coreml.dynamic_shape");
  set_range(0, 15);
  EXPECT_EQ(code(), "coreml.dynamic_shape");
  set_range(~uint64_t{0}, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(code(), "coreml.dynamic_shape");
  set_range(3, 33);
  EXPECT_EQ(error().cause, "size 2 is outside its range");
  port(*program_.description().mutable_input(0)).mutable_shaperange()->clear_sizeranges();
  EXPECT_EQ(code(), "coreml.description");
}

TEST_F(CoremlRange, RequiresWidthsInTheMetadata) {
  for (const char* range : {"1", "16 1", "1 1", "0 4", "a b", "1 2 3", "1 99999999999999999999"}) {
    metadata("moec.range") = range;
    EXPECT_EQ(code(), "coreml.metadata") << range;
  }
  metadata("moec.range") = "";
  EXPECT_EQ(code(), "coreml.dynamic_shape");
}

// ---- Operations --------------------------------------------------------------------------------

TEST_F(CoremlProgram, RejectsUnknownOperations) {
  operation("scaled").set_type("lstm");
  EXPECT_EQ(error().cause, "operation lstm is unsupported");
  EXPECT_EQ(error().place.op, "scaled");
  operation("scaled").set_type("mul");
  operation("scaled").add_blocks();
  EXPECT_EQ(code(), "coreml.op");
  operation("scaled").clear_blocks();
  *operation("scaled").add_outputs() = operation("sum").outputs(0);
  operation("scaled").mutable_outputs(1)->set_name("second");
  EXPECT_EQ(error().cause, "mul has 2 outputs, expected 1");
}

TEST_F(CoremlProgram, RejectsMissingAndUnsupportedArguments) {
  auto& arguments = *operation("out").mutable_inputs();
  const mlmodel::Argument keep = arguments.at("keep_dims");
  arguments["other"] = keep;
  EXPECT_EQ(error().cause, "argument \"other\" of reduce_sum is unsupported");
  EXPECT_EQ(error().place.op, "out");
  arguments.erase("other");
  arguments.erase("keep_dims");
  EXPECT_EQ(error().cause, "argument \"keep_dims\" of reduce_sum is missing");
  arguments["keep_dims"].add_arguments()->set_name("axes");
  EXPECT_EQ(error().cause, "expected a bool as an immediate value");
  arguments["keep_dims"].mutable_arguments(0)->set_name("x");
  EXPECT_EQ(error().cause, "argument \"keep_dims\" of reduce_sum must be a constant");
  arguments["keep_dims"] = keep;
  value("keep").mutable_immediatevalue()->mutable_tensor()->mutable_bools()->set_values(0, false);
  EXPECT_EQ(error().cause, "argument \"keep_dims\" of reduce_sum has an unsupported value");
}

TEST_F(CoremlProgram, RejectsMissingAndInvalidOperands) {
  auto& arguments = *operation("scaled").mutable_inputs();
  arguments.erase("y");
  EXPECT_EQ(error().cause, "argument \"y\" of mul is missing");
  *arguments["y"].add_arguments()->mutable_value() = value("c");
  EXPECT_EQ(error().cause, "argument \"y\" of mul must name a value");
  arguments["y"].mutable_arguments(0)->set_name("c");
  arguments["y"].add_arguments()->set_name("c");
  EXPECT_EQ(error().cause, "argument \"y\" of mul must be a single value");
  program_ = sample_program();
  program_.state("k_state", {1, 4});
  operation("scaled").mutable_inputs()->at("y").mutable_arguments(0)->set_name("k_state");
  EXPECT_EQ(error().cause, "\"k_state\" is not a tensor");
}

TEST_F(CoremlProgram, RejectsOperandsThatViolateConstraints) {
  operation("scaled").mutable_inputs()->at("y").mutable_arguments(0)->set_name("axes");
  EXPECT_EQ(code(), "coreml.undefined");  // defined later
  program_.ints("early", {1});
  auto& operations = *program_.block().mutable_operations();
  for (int i = operations.size() - 1; i > 0; --i) operations.SwapElements(i, i - 1);
  operation("scaled").mutable_inputs()->at("y").mutable_arguments(0)->set_name("early");
  EXPECT_EQ(code(), "binary.c2");
}

TEST_F(CoremlProgram, RejectsUnsupportedOperationAttributes) {
  auto& attributes = *operation("scaled").mutable_attributes();
  const mlmodel::Value name = attributes.at("name");
  attributes["scale"] = name;
  EXPECT_EQ(error().cause, "attribute \"scale\" of mul is unsupported");
  attributes.erase("scale");
  attributes["name"] = value("axes");
  EXPECT_EQ(error().cause, "expected a string as an immediate value");
  attributes.erase("name");
  EXPECT_TRUE(read());
  (*operation("c").mutable_attributes())["scale"] = name;
  EXPECT_EQ(code(), "coreml.value");
}

TEST_F(CoremlProgram, RejectsUnsupportedSlices) {
  auto& begin = *value("begin").mutable_immediatevalue()->mutable_tensor()->mutable_ints();
  begin.set_values(0, 1);
  EXPECT_EQ(error().cause, "a slice along several axes is unsupported");
  begin.set_values(0, 0);
  begin.add_values(0);
  EXPECT_EQ(error().cause, "expected a vector of i32 as an immediate value");
  value("begin")
      .mutable_type()
      ->mutable_tensortype()
      ->mutable_dimensions(0)
      ->mutable_constant()
      ->set_size(3);
  EXPECT_THAT(error().cause, HasSubstr("begin and size must have one number per axis"));
}

TEST_F(CoremlProgram, ReadsNegationsListedInMetadata) {
  program_.halves("minus_one", {}, {-1});
  program_.op("mul", "minus_x", {{"x", {"x"}}, {"y", {"minus_one"}}}, {2, 4});
  program_.output("minus_x", {2, 4});
  EXPECT_EQ(mnemonics(good().shard).back(), "mul");
  metadata("moec.negations") = "minus_x\n";
  EXPECT_EQ(mnemonics(good().shard).back(), "neg");
  EXPECT_EQ(good().shard.ops.size(), 7u);
  metadata("moec.negations") = "scaled\n";
  EXPECT_EQ(code(), "coreml.argument");  // multiplies by another number
  metadata("moec.negations") = "nothing\n";
  EXPECT_EQ(code(), "coreml.metadata");
}

TEST_F(CoremlProgram, RejectsMissingAndDuplicateNames) {
  operation("scaled").mutable_inputs()->at("x").mutable_arguments(0)->set_name("nowhere");
  EXPECT_EQ(code(), "coreml.undefined");
  EXPECT_EQ(error().cause, "\"nowhere\" is used before its definition");
  EXPECT_EQ(error().place.op, "scaled");
  operation("scaled").mutable_inputs()->at("x").mutable_arguments(0)->set_name("out");
  EXPECT_EQ(code(), "coreml.undefined");
  program_ = sample_program();
  operation("part").mutable_outputs(0)->set_name("sum");
  EXPECT_EQ(code(), "coreml.duplicate_name");
  program_ = sample_program();
  operation("part").mutable_outputs(0)->set_name("");
  EXPECT_EQ(code(), "coreml.duplicate_name");
  program_ = sample_program();
  program_.block().add_outputs("nowhere");
  EXPECT_EQ(code(), "coreml.undefined");
}

// ---- Values and weight.bin ---------------------------------------------------------------------

TEST_F(CoremlProgram, RejectsValuesThatContradictTheirType) {
  auto& bytes = *value("c").mutable_immediatevalue()->mutable_tensor()->mutable_bytes();
  bytes.mutable_values()->pop_back();
  EXPECT_EQ(code(), "coreml.value");
  bytes.mutable_values()->pop_back();
  EXPECT_EQ(error().cause, "a value has 3 elements, but its type is f16[1,4]");
  value("c").clear_value();
  EXPECT_EQ(code(), "coreml.value");
  operation("c").mutable_attributes()->erase("val");
  EXPECT_EQ(code(), "coreml.value");
}

class CoremlBlobs : public CoremlProgram {
 protected:
  template <class T>
  void put(size_t at, T number) {
    std::memcpy(program_.blobs().data() + at, &number, sizeof number);
  }
  auto& stored() { return *value("w").mutable_blobfilevalue(); }
  static constexpr size_t kLead = 64;  // header of the only blob
};

TEST_F(CoremlBlobs, RejectsInconsistentHeaders) {
  struct Case {
    size_t at;
    uint64_t number;
    const char* cause;
  };
  const uint64_t good_size = 16, good_place = 128;
  for (const Case& wrong :
       {Case{kLead, uint64_t{1} << 32 | 0xDEADBEE0, "no blob begins at byte 64"},
        Case{kLead, uint64_t{2} << 32 | 0xDEADBEEF, "has element type 2 and 16 bytes"},
        Case{kLead + 8, good_size + 2, "has element type 1 and 18 bytes"},
        Case{kLead + 16, good_place + 64, "no blob begins"},
        Case{kLead + 24, 4, "no blob begins"}}) {
    program_ = sample_program();
    put(wrong.at, wrong.number);
    EXPECT_EQ(code(), "coreml.blob");
    EXPECT_THAT(error().cause, HasSubstr(wrong.cause));
  }
}

TEST_F(CoremlBlobs, RejectsInvalidOffsets) {
  for (uint64_t place : {uint64_t{0}, uint64_t{65}, uint64_t{128}, uint64_t{192}, ~uint64_t{63}}) {
    stored().set_offset(place);
    EXPECT_EQ(code(), "coreml.blob") << place;
  }
  stored().set_offset(kLead);
  for (const char* name : {"", "weight.bin", "@model_path/../weight.bin", "/etc/passwd"}) {
    stored().set_filename(name);
    EXPECT_EQ(error().cause, "the weights must be in @model_path/weights/weight.bin");
  }
}

TEST_F(CoremlBlobs, RejectsShortAndMissingFiles) {
  const std::string whole = program_.blobs();
  program_.blobs().pop_back();
  EXPECT_THAT(error().cause, HasSubstr("bytes [128, 128 + 16) exceed"));
  program_.blobs().resize(63);
  EXPECT_THAT(error().cause, HasSubstr("is shorter than its 64-byte header"));
  program_.blobs() = whole;
  put(4, uint32_t{1});
  EXPECT_THAT(error().cause, HasSubstr("has version 1"));
  program_.blobs() = whole;
  program_.write(folder_.string());
  fs::rename(blobs_, folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", blobs_);
  auto result = read_coreml(model_);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().front().cause, HasSubstr("is missing or is not a regular file"));
}

TEST_F(CoremlBlobs, RejectsLargeConstants) {
  program_ = MilProgram();
  program_.weight("large", {1 << 13, (1 << 11) + 1}, {});
  put(kLead + 8, uint64_t{2} * ((1 << 13) * ((1 << 11) + 1)));
  program_.op("identity", "out", {{"x", {"large"}}}, {1 << 13, (1 << 11) + 1});
  program_.output("out", {1 << 13, (1 << 11) + 1});
  EXPECT_THAT(error().cause, HasSubstr("exceed"));
  program_.write(folder_.string());
  fs::resize_file(blobs_, uint64_t{1} << 26);
  EXPECT_TRUE(read_coreml(model_));
  metadata("moec.constants") = "large\n";
  program_.blobs().resize(uint64_t{1} << 26);
  EXPECT_EQ(code(), "coreml.value");
}

// ---- Metadata ----------------------------------------------------------------------------------

TEST_F(CoremlProgram, RejectsMetadataThatContradictsTheGraph) {
  metadata("moec.shard") = "L01.mlp";
  metadata("moec.names") = "experts.3.h scaled\n12 part\n";
  LoadedShard loaded = good();
  EXPECT_EQ(loaded.shard.name, "L01.mlp");
  EXPECT_EQ(loaded.shard.values[ValueId{4}].name, "experts.3.h");
  EXPECT_EQ(loaded.shard.values[ValueId{5}].name, "");
  metadata("moec.names") = "x w\nx c\nx sum\n";  // labels are made unique
  EXPECT_TRUE(read());
  metadata("moec.names") = "x nothing\n";
  EXPECT_EQ(code(), "coreml.metadata");
  metadata("moec.names") = "x";
  EXPECT_EQ(code(), "coreml.metadata");
  metadata("moec.names") = "";
  metadata("moec.layouts") = "rows x\n";
  EXPECT_EQ(good().shard.type(ValueId{0}).layout, Layout::rows);
  for (const char* layouts : {"diagonal x\n", "rows", "rows sum\n", "rows nothing\n"}) {
    metadata("moec.layouts") = layouts;
    EXPECT_EQ(code(), "coreml.metadata") << layouts;
  }
  metadata("moec.layouts") = "channels x\n";  // the sizes do not fit the layout
  EXPECT_FALSE(read());
  metadata("moec.layouts") = "";
  metadata("moec.constants") = "nothing\n";
  EXPECT_EQ(code(), "coreml.metadata");
}

// ---- Files -------------------------------------------------------------------------------------

class CoremlPackage : public CoremlProgram {
 protected:
  CoremlPackage()
      : package_(program_.write(folder_.string())), manifest_(package_ + "/Manifest.json") {
    text_ = read_file(manifest_);
  }
  // Returns the finding after replacing `from` with `to` in the manifest.
  Diagnostic with(const std::string& from, const std::string& to) {
    std::string changed = text_;
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(manifest_) << changed;
    auto result = read_coreml(package_);
    if (result) return {};
    EXPECT_EQ(result.error().front().place.file, manifest_);
    return result.error().front();
  }

  std::string package_, manifest_, text_;
};

TEST_F(CoremlPackage, RejectsManifestsThatContradictThePackage) {
  EXPECT_EQ(with("1.0.0", "1.0.0").code, "");
  EXPECT_EQ(with("1.0.0", "2.0.0").cause, "fileFormatVersion must be \"1.0.0\"");
  EXPECT_EQ(with("\"itemInfoEntries\"", "\"items\"").cause, "itemInfoEntries must be an object");
  EXPECT_EQ(with("\"rootModelIdentifier\": \"b\"", "\"rootModelIdentifier\": \"a\"").cause,
            "rootModelIdentifier does not name the model's item");
  EXPECT_EQ(with("\"rootModelIdentifier\": \"b\"", "\"rootModelIdentifier\": 3").code,
            "coreml.package");
  EXPECT_EQ(with("\"author\"", "\"auther\"").cause,
            "an item of Manifest.json has no string \"author\"");
  EXPECT_THAT(with("com.apple.CoreML/weights", "../../other").cause,
              HasSubstr("an item is neither the model nor its weights"));
  EXPECT_THAT(with("{", "[").cause, HasSubstr("Manifest.json is not JSON"));
  fs::remove_all(fs::path(blobs_).parent_path());
  EXPECT_EQ(with("1.0.0", "1.0.0").cause, "com.apple.CoreML/weights is not in the package");
}

TEST_F(CoremlPackage, RejectsWeightFilesWithoutAnItem) {
  const size_t begin = text_.find("\"a\""), end = text_.find("\"b\"");
  EXPECT_EQ(with(text_.substr(begin, end - begin), "").cause,
            "no item of Manifest.json names the weights in the package");
}

TEST_F(CoremlPackage, RejectsPathsWithoutAModel) {
  auto code = [](const std::string& path) {
    auto read = read_coreml(path);
    return read ? std::string() : read.error().front().code;
  };
  EXPECT_EQ(code(folder_ / "absent.mlpackage"), "coreml.open");
  EXPECT_EQ(code(folder_.string()), "coreml.package");
  std::ofstream(folder_ / "text.mlmodel") << "this is a text";
  EXPECT_EQ(code(folder_ / "text.mlmodel"), "coreml.parse");
  std::ofstream(folder_ / "empty.mlmodel").close();
  EXPECT_EQ(code(folder_ / "empty.mlmodel"), "coreml.parse");
  fs::resize_file(folder_ / "empty.mlmodel", uint64_t{1} << 31);
  EXPECT_EQ(code(folder_ / "empty.mlmodel"), "coreml.too_large");
  fs::remove(model_);
  EXPECT_EQ(code(package_), "coreml.package");
  fs::remove(manifest_);
  EXPECT_EQ(code(package_), "coreml.package");
}

}  // namespace
}  // namespace moec
