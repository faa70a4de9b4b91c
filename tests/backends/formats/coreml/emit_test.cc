#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <set>

#include "backends/files/digest.h"
#include "backends/formats/coreml/read_coreml.h"
#include "tests/backends/formats/coreml/testing.h"
#include "tests/files.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const mlmodel::Operation* find_op(const mlmodel::Block& block, const std::string& output) {
  for (const auto& op : block.operations())
    if (op.outputs_size() > 0 && op.outputs(0).name() == output) return &op;
  return nullptr;
}

const mlmodel::Operation& op_named(const mlmodel::Block& block, const std::string& output) {
  const mlmodel::Operation* op = find_op(block, output);
  EXPECT_NE(op, nullptr) << output;
  return op ? *op : mlmodel::Operation::default_instance();
}

// Returns the const operation's value that the argument refers to.
const mlmodel::Value& argument(const mlmodel::Block& block, const std::string& output,
                               const std::string& parameter) {
  const auto& inputs = op_named(block, output).inputs();
  const auto found = inputs.find(parameter);
  if (found == inputs.end()) {
    ADD_FAILURE() << output << " has no argument " << parameter;
    return mlmodel::Value::default_instance();
  }
  return op_named(block, found->second.arguments(0).name()).attributes().at("val");
}

std::vector<int64_t> ints(const mlmodel::Value& value) {
  const auto& values = value.immediatevalue().tensor().ints().values();
  return {values.begin(), values.end()};
}

std::string text(const mlmodel::Value& value) {
  return value.immediatevalue().tensor().strings().values(0);
}

std::vector<int64_t> sizes(const mlmodel::ValueType& type) {
  std::vector<int64_t> dims;
  for (const auto& dimension : type.tensortype().dimensions())
    dims.push_back(dimension.has_constant() ? static_cast<int64_t>(dimension.constant().size())
                                            : -1);
  return dims;
}

std::string entry(const mlmodel::Model& model, const std::string& key) {
  const auto& entries = model.description().metadata().userdefined();
  const auto found = entries.find(key);
  return found == entries.end() ? std::string() : found->second;
}

// ---- The package -------------------------------------------------------------------------------

TEST(EmitCoreml, WritesModelWeightsAndManifest) {
  TestFolder folder;
  auto report = emit_package(gate_shard(2), folder);
  ASSERT_TRUE(report) << render(report.error());
  const std::string package = "shard.t1.mlpackage/";
  EXPECT_THAT(files_under(folder), ElementsAre(package + "Data/com.apple.CoreML/model.mlmodel",
                                               package + "Data/com.apple.CoreML/weights/weight.bin",
                                               package + "Manifest.json"));
  ASSERT_EQ(report->graphs.size(), 1u);
  EXPECT_EQ(report->graphs[0].file.path, package + "Data/com.apple.CoreML/model.mlmodel");
  EXPECT_EQ(report->graphs[0].function, "");
  ASSERT_EQ(report->data.size(), 2u);
  for (const EmittedFile& file : report->data) {
    EXPECT_EQ(file.bytes, fs::file_size(folder / file.path));
    EXPECT_EQ(file.digest, digest_file(folder / file.path).value());
  }
  EXPECT_EQ(report->graphs[0].file.digest,
            digest_file(folder / report->graphs[0].file.path).value());
  ASSERT_EQ(report->tensors.size(), 2u);
  EXPECT_EQ(report->tensors[0].name, "experts_0_gate_weight");
  EXPECT_EQ(report->weight_bytes, 36u);
}

TEST(EmitCoreml, NamesItemsByStableIdentifiers) {
  TestFolder folder;
  ASSERT_TRUE(emit_package(gate_shard(2), folder));
  const std::string manifest = read_file(folder / "shard.t1.mlpackage/Manifest.json");
  EXPECT_THAT(manifest, AllOf(HasSubstr("\"fileFormatVersion\": \"1.0.0\""),
                              HasSubstr("\"path\": \"com.apple.CoreML/model.mlmodel\""),
                              HasSubstr("\"path\": \"com.apple.CoreML/weights\""),
                              testing::ContainsRegex("\"rootModelIdentifier\": \"[0-9a-f]{8}-"
                                                     "[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                                                     "[0-9a-f]{12}\"")));
}

TEST(EmitCoreml, OmitsTheWeightItemWithoutWeights) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f16, {2}});
  b.output("y", b.add(x, b.constant({DType::f16, {2}}, {1, 2})));
  TestFolder folder;
  ASSERT_TRUE(emit_package(b.finish(), folder));
  EXPECT_THAT(files_under(folder),
              ElementsAre("shard.t1.mlpackage/Data/com.apple.CoreML/model.mlmodel",
                          "shard.t1.mlpackage/Manifest.json"));
  EXPECT_THAT(read_file(folder / "shard.t1.mlpackage/Manifest.json"),
              testing::Not(HasSubstr("weights")));
}

TEST(EmitCoreml, ReplacesAnOldPackageEntirely) {
  TestFolder folder;
  ASSERT_TRUE(emit_package(gate_shard(2), folder));
  std::ofstream(folder / "shard.t1.mlpackage/Data/stray") << "x";
  fs::create_directories(folder / "shard.t1.mlpackage.part");
  std::ofstream(folder / "shard.t1.mlpackage.part/interrupted") << "x";
  auto report = emit_package(stateful_shard(1), folder);
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(files_under(folder).size(), 2u);
  EXPECT_EQ(entry(load_mlmodel(folder / "shard.t1.mlpackage"), "moec.shard"), "L00.attn");
}

TEST(EmitCoreml, WritesEqualBytesForEqualShards) {
  TestFolder folder;
  const Shard shard = every_op_shard(DType::f16, Layout::channels, 3, false);
  ASSERT_TRUE(emit_package({{3, &shard}}, folder, {}, "a/s"));
  ASSERT_TRUE(emit_package({{3, &shard}}, folder, {}, "b/s"));
  for (const char* file : {"Data/com.apple.CoreML/model.mlmodel", "Manifest.json",
                           "Data/com.apple.CoreML/weights/weight.bin"})
    EXPECT_EQ(read_file(folder / ("a/s.t3.mlpackage/" + std::string(file))),
              read_file(folder / ("b/s.t3.mlpackage/" + std::string(file))));
}

TEST(EmitCoreml, ReportsProgress) {
  TestFolder folder;
  const Shard shard = gate_shard(1);
  const ShardWidth width{1, &shard};
  uint64_t told = 0;
  EmitOptions options{.folder = folder.string(), .stem = "s", .tile_bytes = 8};
  options.on_progress = [&](uint64_t bytes) -> Status {
    told += bytes;
    return {};
  };
  ASSERT_TRUE(emit_coreml({&width, 1}, no_files(), options));
  EXPECT_EQ(told, 36u);
}

// ---- The program -------------------------------------------------------------------------------

TEST(EmitCoreml, MapsOpsOneToOne) {
  for (Layout layout : {Layout::channels, Layout::bc1s, Layout::rows}) {
    TestFolder folder;
    const Shard shard = every_op_shard(DType::f16, layout, 3, false);
    auto report = emit_package(shard, folder);
    ASSERT_TRUE(report) << render(report.error());
    const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
    size_t computed = 0, written = 0;
    for (const Op& op : shard.ops)
      computed +=
          !std::holds_alternative<Weight>(op.data) && !std::holds_alternative<Constant>(op.data);
    for (const auto& op : block_of(model).operations())
      written += op.type() != "const" && op.type() != "identity";
    EXPECT_EQ(written, computed);
  }
}

// Each name is defined once, before its first use, and spelled as MIL requires.
TEST(EmitCoreml, DefinesUniqueNamesBeforeUse) {
  TestFolder folder;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto report = emit_package(random_shard(seed), folder);
    ASSERT_TRUE(report) << render(report.error());
    const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
    std::set<std::string> known;
    for (const auto& input : function_of(model).inputs()) known.insert(input.name());
    for (const auto& op : block_of(model).operations()) {
      for (const auto& [parameter, bound] : op.inputs())
        for (const auto& binding : bound.arguments())
          EXPECT_TRUE(known.contains(binding.name())) << binding.name();
      for (const auto& output : op.outputs()) {
        EXPECT_THAT(output.name(), testing::MatchesRegex("[A-Za-z_][A-Za-z0-9_]*"));
        EXPECT_TRUE(known.insert(output.name()).second) << output.name();
      }
    }
    for (const std::string& output : block_of(model).outputs()) EXPECT_TRUE(known.contains(output));
  }
}

TEST(EmitCoreml, SpellsOutDefaultArguments) {
  TestFolder folder;
  ASSERT_TRUE(emit_package(every_op_shard(DType::f16, Layout::channels, 3, false), folder));
  const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
  const mlmodel::Block& block = block_of(model);
  EXPECT_EQ(text(argument(block, "conv_out", "pad_type")), "valid");
  EXPECT_THAT(ints(argument(block, "conv_out", "pad")), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ints(argument(block, "conv_out", "strides")), ElementsAre(1, 1));
  EXPECT_THAT(ints(argument(block, "conv_out", "dilations")), ElementsAre(1, 1));
  EXPECT_THAT(ints(argument(block, "conv_out", "groups")), ElementsAre(1));
  EXPECT_EQ(argument(block, "conv_out", "groups").type().tensortype().rank(), 0);
  EXPECT_THAT(ints(argument(block, "part", "begin")), ElementsAre(0, 5, 0, 0));
  EXPECT_THAT(ints(argument(block, "part", "size")), ElementsAre(1, 6, 3, 1));
  EXPECT_THAT(ints(argument(block, "turned", "perm")), ElementsAre(1, 0));
  EXPECT_THAT(ints(argument(block, "flat", "shape")), ElementsAre(18));
  EXPECT_THAT(ints(argument(block, "reduce_mean", "axes")), ElementsAre(1));
  EXPECT_TRUE(
      argument(block, "reduce_mean", "keep_dims").immediatevalue().tensor().bools().values(0));
  EXPECT_FALSE(argument(block, "all", "interleave").immediatevalue().tensor().bools().values(0));
  EXPECT_THAT(ints(argument(block, "again", "axis")), ElementsAre(1));
  EXPECT_EQ(op_named(block, "again").type(), "softmax");
  EXPECT_EQ(argument(block, "neg", "y").immediatevalue().tensor().bytes().values(),
            std::string("\x00\xbc", 2));
  EXPECT_THAT(entry(model, "moec.negations"), "neg\n");
  EXPECT_FALSE(
      argument(block, "rows_out", "transpose_x").immediatevalue().tensor().bools().values(0));
}

TEST(EmitCoreml, AvoidsF32InF16Shards) {
  TestFolder folder;
  ASSERT_TRUE(emit_package(every_op_shard(DType::f16, Layout::channels, 3, false), folder));
  const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
  for (const auto& op : block_of(model).operations())
    for (const auto& output : op.outputs())
      EXPECT_NE(output.type().tensortype().datatype(), mlmodel::FLOAT32) << output.name();
}

TEST(EmitCoreml, InlinesOnlySmallConstants) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f16, {10}});
  std::vector<double> ramp(10);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<double>(i);
  const ValueId sum = b.add(x, b.constant({DType::f16, {10}}, ramp, "ramp"));
  const ValueId splat = b.add(sum, b.constant({DType::f16, {10}}, {2}, "twos"));
  const ValueId index = b.constant({DType::i32, {10}}, ramp, "index");
  b.output("y", b.select(b.compare(CompareFn::less, index, b.constant({DType::i32, {}}, {4})),
                         splat, b.constant({DType::f16, {1}}, {0.5}, "half")));
  TestFolder folder;
  auto report = emit_package(b.finish(), folder);
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_TRUE(report->tensors.empty());  // no weights
  const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
  EXPECT_EQ(entry(model, "moec.constants"), "ramp\ntwos\n");
  const auto& ramp_value = op_named(block_of(model), "ramp").attributes().at("val");
  EXPECT_EQ(ramp_value.blobfilevalue().filename(), "@model_path/weights/weight.bin");
  EXPECT_EQ(ramp_value.blobfilevalue().offset(), 64u);
  EXPECT_TRUE(op_named(block_of(model), "half").attributes().at("val").has_immediatevalue());
  EXPECT_EQ(ints(op_named(block_of(model), "index").attributes().at("val")).size(), 10u);
  const std::string data =
      read_file(folder / "shard.t1.mlpackage/Data/com.apple.CoreML/weights/weight.bin");
  EXPECT_EQ(data.substr(128 + 2, 2), std::string("\x00\x3c", 2));  // 1 in f16
}

TEST(EmitCoreml, EmitsAliasedOutputsAsIdentities) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f16, {2}});
  const ValueId y = b.unary(UnaryFn::exp, x, "exp");
  b.output("first", y);
  b.output("second", y);
  b.output("passed_on", x);
  TestFolder folder;
  ASSERT_TRUE(emit_package(b.finish(), folder));
  const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
  EXPECT_THAT(block_of(model).outputs(), ElementsAre("first", "second", "passed_on"));
  EXPECT_EQ(op_named(block_of(model), "first").type(), "exp");
  EXPECT_EQ(op_named(block_of(model), "second").type(), "identity");
  EXPECT_EQ(op_named(block_of(model), "passed_on").type(), "identity");
  EXPECT_EQ(entry(model, "moec.names"), "exp first\n");
}

TEST(EmitCoreml, RenamesReservedValueNames) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f16, {2}});
  const ValueId a = b.unary(UnaryFn::exp, x, "tensor");
  const ValueId c = b.unary(UnaryFn::exp, a, "a.b");
  const ValueId d = b.unary(UnaryFn::exp, c, "a_b");
  b.output("y", b.unary(UnaryFn::neg, b.unary(UnaryFn::tanh, d, "3.h")));
  TestFolder folder;
  ASSERT_TRUE(emit_package(b.finish(), folder));
  EXPECT_EQ(entry(load_mlmodel(folder / "shard.t1.mlpackage"), "moec.names"),
            "tensor tensor_2\na.b a_b\na_b a_b_2\n3.h _3_h\n5 y\n");
}

// ---- States, functions, ranges -----------------------------------------------------------------

TEST(EmitCoreml, EmitsStatesAsFunctionInputs) {
  TestFolder folder;
  auto report = emit_package(stateful_shard(1), folder);
  ASSERT_TRUE(report) << render(report.error());
  const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
  EXPECT_EQ(model.specificationversion(), 9);
  ASSERT_EQ(function_of(model).inputs_size(), 4);
  EXPECT_EQ(function_of(model).inputs(2).name(), "k_state");
  EXPECT_TRUE(function_of(model).inputs(2).type().has_statetype());
  ASSERT_EQ(model.description().state_size(), 2);
  EXPECT_EQ(model.description().input_size(), 2);
  const auto& array = model.description().state(1).type().statetype().arraytype();
  EXPECT_THAT(array.shape(), ElementsAre(1, 2, 8, 4));
  EXPECT_EQ(array.datatype(), mlmodel::ArrayFeatureType::FLOAT16);
  size_t reads = 0;
  for (const auto& op : block_of(model).operations()) {
    reads += op.type() == "read_state";
    if (op.type() != "write_state") continue;
    EXPECT_EQ(op.outputs_size(), 0);
    EXPECT_EQ(op.inputs().count("data"), 1u);
  }
  EXPECT_EQ(reads, 2u);
}

TEST(EmitCoreml, CopiesWeightsIntoSeparatePackages) {
  TestFolder folder;
  const Shard one = gate_shard(1), many = gate_shard(16);
  auto report = emit_package({{1, &one}, {16, &many}}, folder, {}, "moe/L02");
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(files_under(folder).size(), 6u);
  EXPECT_EQ(report->graphs[1].file.path,
            "moe/L02.t16.mlpackage/Data/com.apple.CoreML/model.mlmodel");
  EXPECT_EQ(report->tensors.size(), 2u);  // reported once
  EXPECT_EQ(report->weight_bytes, 36u);
  const std::string weights = "/Data/com.apple.CoreML/weights/weight.bin";
  EXPECT_EQ(read_file(folder / ("moe/L02.t1.mlpackage" + weights)),
            read_file(folder / ("moe/L02.t16.mlpackage" + weights)));
}

TEST(EmitCoreml, ChoosesFunctionsWithoutStates) {
  const Shard one = gate_shard(1), many = gate_shard(16);
  const auto packages = [](const Shard& narrow, const Shard& wide, int version) {
    TestFolder folder;
    const auto report =
        emit_package({{1, &narrow}, {16, &wide}}, folder, {.spec_version = version});
    EXPECT_TRUE(report) << render(report.error());
    return report && report->graphs[0].file == report->graphs[1].file ? 1 : 2;
  };
  EXPECT_EQ(packages(one, many, 0), 2);
  EXPECT_EQ(packages(one, many, 7), 2);
  EXPECT_EQ(packages(one, many, 9), 1);
  const Shard state = stateful_shard(1);
  EXPECT_EQ(packages(state, state, 9), 2);
}

TEST(EmitCoreml, SharesBlobsBetweenFunctions) {
  TestFolder folder;
  const Shard one = gate_shard(1), many = gate_shard(16);
  auto report =
      emit_package({{16, &many}, {1, &one}}, folder, {.packaging = WidthPackaging::functions});
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->graphs[0].function, "t16");
  EXPECT_EQ(report->graphs[0].file, report->graphs[1].file);
  const mlmodel::Model model = load_mlmodel(folder / "shard.mlpackage");
  EXPECT_EQ(model.specificationversion(), 9);
  EXPECT_EQ(model.description().defaultfunctionname(), "t1");
  EXPECT_EQ(model.description().input_size(), 0);
  ASSERT_EQ(model.description().functions_size(), 2);
  EXPECT_THAT(model.description().functions(1).input(0).type().multiarraytype().shape(),
              ElementsAre(1, 3, 16, 1));
  EXPECT_EQ(entry(model, "moec.t16.layouts"), "channels x\n");
  for (const char* weight : {"experts_0_gate_weight", "experts_1_gate_weight"}) {
    auto offset = [&](const char* function) {
      return op_named(block_of(model, function), weight)
          .attributes()
          .at("val")
          .blobfilevalue()
          .offset();
    };
    EXPECT_EQ(offset("t1"), offset("t16"));
  }
  EXPECT_EQ(fs::file_size(folder / "shard.mlpackage/Data/com.apple.CoreML/weights/weight.bin"),
            64u + 64 + 64 + 64 + 18);
}

TEST(EmitCoreml, PutsShardsIntoOnePackage) {
  TestFolder folder;
  Shard router = gate_shard(1), one = gate_shard(1), many = gate_shard(16);
  router.name = "L00.router";
  auto report = emit_package(
      {{1, &router, "", "router"}, {1, &one, "", "expert_0"}, {16, &many, "", "expert_0"}}, folder,
      {.packaging = WidthPackaging::functions});
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->graphs[0].function, "router");
  EXPECT_EQ(report->graphs[1].function, "expert_0_t1");
  EXPECT_EQ(report->graphs[2].function, "expert_0_t16");
  EXPECT_EQ(report->graphs[0].file, report->graphs[2].file);
  EXPECT_EQ(report->tensors.size(), 2u);  // stored once
  const std::string path = folder / "shard.mlpackage";
  EXPECT_EQ(load_mlmodel(path).description().defaultfunctionname(), "router");
  for (const auto& [function, shard] :
       {std::pair("router", &router), std::pair("expert_0_t1", &one)}) {
    const auto read = read_coreml(path, {.function = function});
    ASSERT_TRUE(read) << render(read.error());
    EXPECT_EQ(read->shard.name, shard->name);
  }
  EXPECT_FALSE(read_coreml(path, {.function = "expert_1_t1"}));
}

Shard range_shard(int64_t tokens) {
  Builder b("L00.moe", Form::placed);
  const ValueId x = b.input("x", token_type(DType::f16, Layout::rows, 6, tokens));
  const ValueId part = b.slice(x, 1, 1, 4, "part");
  const ValueId flat = b.reshape(part, {tokens * 4}, Layout::plain, "flat");
  b.output("y", b.reshape(flat, {tokens, 4}, Layout::rows, "rows"));
  return b.finish();
}

TEST(EmitCoreml, BoundsDynamicSizesByTheRange) {
  TestFolder folder;
  const Shard one = range_shard(2), some = range_shard(5), many = range_shard(9);
  auto report = emit_package({{2, &one}, {9, &many}, {5, &some}}, folder,
                             {.packaging = WidthPackaging::range});
  ASSERT_TRUE(report) << render(report.error());
  ASSERT_EQ(report->graphs.size(), 3u);
  EXPECT_EQ(report->graphs[1].tokens, 9);
  EXPECT_EQ(report->graphs[0].file, report->graphs[1].file);
  const mlmodel::Model model = load_mlmodel(folder / "shard.mlpackage");
  EXPECT_EQ(entry(model, "moec.range"), "2 9");
  EXPECT_THAT(sizes(function_of(model).inputs(0).type()), ElementsAre(-1, 6));
  const auto& array = model.description().input(0).type().multiarraytype();
  EXPECT_THAT(array.shape(), ElementsAre(2, 6));
  ASSERT_EQ(array.shaperange().sizeranges_size(), 2);
  EXPECT_EQ(array.shaperange().sizeranges(0).lowerbound(), 2u);
  EXPECT_EQ(array.shaperange().sizeranges(0).upperbound(), 9);
  EXPECT_EQ(array.shaperange().sizeranges(1).upperbound(), 6);
  EXPECT_EQ(model.description().output(0).type().multiarraytype().shape_size(), 0);
  EXPECT_THAT(ints(argument(block_of(model), "flat", "shape")), ElementsAre(-1));
  EXPECT_THAT(ints(argument(block_of(model), "y", "shape")), ElementsAre(-1, 4));
  EXPECT_THAT(ints(argument(block_of(model), "part", "size")), ElementsAre(-1, 4));
}

TEST(EmitCoreml, ChoosesTheLowestSufficientVersion) {
  TestFolder folder;
  auto version = [&](const Shard& shard, int wanted) {
    EXPECT_TRUE(emit_package(shard, folder, {.spec_version = wanted}));
    const mlmodel::Model model = load_mlmodel(folder / "shard.t1.mlpackage");
    EXPECT_EQ(function_of(model).opset(),
              "CoreML" + std::to_string(model.specificationversion() - 1));
    return model.specificationversion();
  };
  EXPECT_EQ(version(gate_shard(1, DType::f32), 0), 6);
  EXPECT_EQ(version(gate_shard(1, DType::f16), 0), 7);
  EXPECT_EQ(version(stateful_shard(1), 0), 9);
  EXPECT_EQ(version(gate_shard(1, DType::f32), 8), 8);
}

TEST(EmitCoreml, RecordsProvenanceInMetadata) {
  TestFolder folder;
  const Shard shard = gate_shard(1);
  const ShardWidth width{1, &shard};
  ASSERT_TRUE(emit_coreml({&width, 1}, no_files(),
                          {.folder = folder.string(), .stem = "s", .family = "qwen3_moe"}));
  const mlmodel::Model model = load_mlmodel(folder / "s.t1.mlpackage");
  const auto& metadata = model.description().metadata();
  EXPECT_EQ(metadata.author(), "moec");
  EXPECT_EQ(metadata.versionstring(), MOEC_VERSION);
  EXPECT_EQ(metadata.shortdescription(), "Static shard L02.mlp of a qwen3_moe model");
  EXPECT_EQ(entry(model, "moec.shard"), "L02.mlp");
  EXPECT_EQ(model.mlprogram().version(), 1);
}

// ---- Refusals -----------------------------------------------------------------------------------

Diagnostic refusal(const std::vector<ShardWidth>& widths, const CoremlOptions& coreml = {},
                   const FileLimits& limits = kCoremlLimits) {
  TestFolder folder;
  const EmitOptions options{.folder = folder.string(), .stem = "s", .limits = limits};
  auto report = emit_coreml(widths, no_files(), options, coreml);
  EXPECT_TRUE(fs::is_empty(folder.string()));
  return report ? Diagnostic{} : report.error().front();
}

Diagnostic refusal(const Shard& shard, const CoremlOptions& coreml = {}) {
  return refusal(std::vector<ShardWidth>{{1, &shard}}, coreml);
}

TEST(EmitCoremlRefuses, ShardsOfOtherForms) {
  Builder b("L00.moe", Form::static_ops);
  b.output("y", b.input("x", {DType::f16, {2}}));
  EXPECT_EQ(refusal(b.finish()).code, "emit.form");
}

TEST(EmitCoremlRefuses, InvalidShards) {
  Builder b("s", Form::placed);
  b.output("y", b.input("x", {DType::f16, {2}}));
  Shard shard = b.finish();
  shard.outputs.front().value = ValueId{7};
  EXPECT_EQ(refusal(shard).code, "shard.s1");
}

TEST(EmitCoremlRefuses, OpsWithoutMilEquivalent) {
  const Diagnostic error = refusal(every_op_shard(DType::f16, Layout::channels, 1));
  EXPECT_EQ(error.code, "emit.op");
  EXPECT_THAT(error.cause, HasSubstr("topk"));
  EXPECT_EQ(error.place.op, "top");
  Builder b("s", Form::placed);
  b.output("y", b.reshape(b.reshape(b.input("x", {DType::f16, {1}}), {}), {1}));
  EXPECT_EQ(refusal(b.finish()).code, "emit.op");
}

TEST(EmitCoremlRefuses, ElementTypesWithoutMilEquivalent) {
  for (DType dtype : {DType::i64, DType::u8, DType::bf16}) {
    Builder b("s", Form::placed);
    b.output("y", b.cast(b.constant({dtype, {2}}, {1}), DType::f16));
    EXPECT_EQ(refusal(b.finish()).code, "emit.dtype") << dtype_name(dtype);
  }
  Builder input("s", Form::placed);
  input.output("y", input.cast(input.input("x", {DType::i64, {2}}), DType::f16));
  EXPECT_EQ(refusal(input.finish()).code, "emit.dtype");
}

TEST(EmitCoremlRefuses, BoolAndScalarPorts) {
  Builder truth("s", Form::placed);
  const ValueId x = truth.input("x", {DType::f16, {2}});
  truth.output("y", truth.compare(CompareFn::less, x, x));
  EXPECT_EQ(refusal(truth.finish()).code, "emit.dtype");
  Builder scalar("s", Form::placed);
  scalar.output("y", scalar.unary(UnaryFn::exp, scalar.input("x", {DType::f16, {}})));
  const Diagnostic error = refusal(scalar.finish());
  EXPECT_EQ(error.code, "emit.dtype");
  EXPECT_THAT(error.cause, HasSubstr("input \"x\" is a scalar"));
}

TEST(EmitCoremlRefuses, ConstantsOutOfTheirTypesRange) {
  for (const auto& [dtype, value] :
       {std::pair{DType::i32, 0x1p31}, std::pair{DType::boolean, 2.0}}) {
    Builder b("s", Form::placed);
    b.output("y", b.cast(b.constant({dtype, {1}}, {value}), DType::f16));
    EXPECT_EQ(refusal(b.finish()).code, "emit.constant") << dtype_name(dtype);
  }
}

TEST(EmitCoremlRefuses, PortNamesInvalidInMil) {
  for (const char* name : {"tensor", "int8", "a.b", "3x"}) {
    Builder b("s", Form::placed);
    b.output("y", b.unary(UnaryFn::exp, b.input(name, {DType::f16, {2}})));
    EXPECT_EQ(refusal(b.finish()).code, "coreml.reserved_name") << name;
  }
  Builder b("s", Form::placed);
  b.state("state", {DType::f16, {2}});
  b.output("y", b.emit(StateRead{"state"}, {}));
  EXPECT_EQ(refusal(b.finish()).code, "coreml.reserved_name");
}

TEST(EmitCoremlRefuses, AnOutputNamedLikeAnInput) {
  Builder b("s", Form::placed);
  b.output("x", b.input("x", {DType::f16, {2}}));
  EXPECT_EQ(refusal(b.finish()).code, "emit.port_name");
}

TEST(EmitCoremlRefuses, TooManyStatesAndF32States) {
  const Diagnostic many = refusal(stateful_shard(1, 3));
  EXPECT_EQ(many.code, "coreml.states");
  EXPECT_THAT(many.cause, HasSubstr("3 states"));
  EXPECT_EQ(refusal(stateful_shard(1, 2, DType::f32)).code, "coreml.states");
}

TEST(EmitCoremlRefuses, VersionsTooLowForFeatures) {
  const Shard one = gate_shard(1), four = gate_shard(4);
  const Diagnostic f16 = refusal(one, {.spec_version = 6});
  EXPECT_EQ(f16.code, "coreml.spec_too_low");
  EXPECT_THAT(f16.cause, HasSubstr("f16 input \"x\" needs specification version 7"));
  EXPECT_THAT(refusal(stateful_shard(1), {.spec_version = 8}).cause,
              HasSubstr("state \"k_state\""));
  EXPECT_THAT(
      refusal({{1, &one}, {4, &four}}, {.packaging = WidthPackaging::functions, .spec_version = 7})
          .cause,
      HasSubstr("several functions"));
  EXPECT_EQ(refusal(gate_shard(1, DType::f32), {.spec_version = 5}).code, "coreml.spec_too_low");
  EXPECT_EQ(refusal(one, {.spec_version = 10}).code, "coreml.spec_unknown");
}

// The file would have three 64-byte headers, 18 bytes per weight and gaps of 46 bytes.
TEST(EmitCoremlRefuses, WeightFilesThatReachTheLimit) {
  const Shard shard = gate_shard(1);
  const ShardWidth width{1, &shard};
  const Diagnostic error = refusal({width}, {}, {.weight_file_bytes = 274});
  EXPECT_EQ(error.code, "coreml.blob_too_large");
  EXPECT_THAT(error.cause, HasSubstr("274 bytes"));
  TestFolder folder;
  EXPECT_TRUE(
      emit_coreml({&width, 1}, no_files(),
                  {.folder = folder.string(), .stem = "s", .limits = {.weight_file_bytes = 275}}));
}

TEST(EmitCoremlRefuses, GraphsAboveTheSizeLimit) {
  const Shard shard = gate_shard(1);
  EXPECT_EQ(refusal({{1, &shard}}, {}, {.graph_bytes = 100}).code, "emit.graph_too_large");
}

TEST(EmitCoremlRefuses, WeightsMissingFromTheTable) {
  Builder b("s", Form::placed);
  b.output("y", b.unary(UnaryFn::exp, b.weight(tensor_view("absent", {DType::f16, {2}}))));
  EXPECT_EQ(refusal(b.finish()).code, "weights.unknown_tensor");
}

TEST(EmitCoremlRefuses, AFileAsOutputFolder) {
  TestFolder folder;
  std::ofstream(folder / "plain") << "x";
  const Shard shard = gate_shard(1);
  const ShardWidth width{1, &shard};
  auto report = emit_coreml({&width, 1}, no_files(), {.folder = folder / "plain", .stem = "s"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().front().code, "emit.bad_folder");
}

// Limits files to 1 KiB to simulate a full disk; the weights need more.
TEST(EmitCoremlRefuses, FullDisksKeepingTheOldPackage) {
  TestFolder folder;
  ASSERT_TRUE(emit_package(gate_shard(1), folder));
  const auto files = files_under(folder);
  Builder b("s", Form::placed);
  b.output("y", b.unary(UnaryFn::exp, b.weight(splat_view(1, {DType::f16, {4096}}))));
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1024, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  auto report = emit_package(b.finish(), folder);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().front().code, "emit.no_space");
  EXPECT_EQ(files_under(folder), files);
  EXPECT_EQ(entry(load_mlmodel(folder / "shard.t1.mlpackage"), "moec.shard"), "L02.mlp");
}

// ---- Refused ranges -----------------------------------------------------------------------------

Diagnostic range_refusal(const Shard& least, const Shard& largest) {
  return refusal({{2, &least}, {4, &largest}}, {.packaging = WidthPackaging::range});
}

template <class Body>
Shard width_shard(int64_t tokens, Body body) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", token_type(DType::f16, Layout::rows, 4, tokens));
  b.output("y", body(b, x));
  return b.finish();
}

template <class Body>
Diagnostic range_refusal(Body body) {
  const Shard least = width_shard(2, [&](Builder& b, ValueId x) { return body(b, x, 2); });
  const Shard largest = width_shard(4, [&](Builder& b, ValueId x) { return body(b, x, 4); });
  return range_refusal(least, largest);
}

TEST(EmitCoremlRefuses, RangesOfASingleWidth) {
  EXPECT_EQ(refusal(gate_shard(1), {.packaging = WidthPackaging::range}).code, "coreml.range");
}

TEST(EmitCoremlRefuses, RangesDifferingInMoreThanSizes) {
  const Diagnostic other_ops = range_refusal([](Builder& b, ValueId x, int64_t tokens) {
    return b.unary(tokens == 2 ? UnaryFn::exp : UnaryFn::tanh, x, "act");
  });
  EXPECT_EQ(other_ops.code, "coreml.range");
  EXPECT_EQ(other_ops.place.op, "act");
  const Diagnostic begins = range_refusal(
      [](Builder& b, ValueId x, int64_t tokens) { return b.slice(x, 0, tokens - 1, 1, "last"); });
  EXPECT_THAT(begins.cause, HasSubstr("begins at different indices"));
  EXPECT_EQ(begins.place.op, "last");
  const Diagnostic half = range_refusal(
      [](Builder& b, ValueId x, int64_t tokens) { return b.slice(x, 0, 0, tokens / 2, "half"); });
  EXPECT_THAT(half.cause, HasSubstr("the size of the slice depends on the width"));
  const Diagnostic squares = range_refusal([](Builder& b, ValueId x, int64_t tokens) {
    const ValueId turned = b.transpose(x, {1, 0});
    return b.reshape(b.matmul(x, turned), {1, tokens, tokens}, Layout::plain, "square");
  });
  EXPECT_THAT(squares.cause, HasSubstr("two sizes"));
  EXPECT_EQ(squares.place.op, "square");
  const Diagnostic constant = range_refusal([](Builder& b, ValueId x, int64_t tokens) {
    return b.add(x, b.constant({DType::f16, {tokens, 1}}, {1}, "ones"));
  });
  EXPECT_EQ(constant.place.op, "ones");
  EXPECT_EQ(range_refusal(gate_shard(2), stateful_shard(4)).code, "coreml.range");
}

}  // namespace
}  // namespace moec
