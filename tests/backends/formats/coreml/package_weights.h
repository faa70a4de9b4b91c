// Builds ML Programs by hand, as other tools write them. The reader's tests edit and damage them.
#pragma once

#include <mlmodel.pb.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/scalar.h"
#include "ir/graph/type.h"

namespace moec {

inline void set_type(mlmodel::DataType dtype, const Dims& dims, mlmodel::ValueType& type) {
  mlmodel::TensorType& tensor = *type.mutable_tensortype();
  tensor.set_datatype(dtype);
  tensor.set_rank(static_cast<int64_t>(dims.size()));
  for (int64_t size : dims)
    tensor.add_dimensions()->mutable_constant()->set_size(static_cast<uint64_t>(size));
}

class MilProgram {
 public:
  using Arguments = std::vector<std::pair<std::string, std::vector<std::string>>>;

  explicit MilProgram(int spec_version = 9) {
    model_.set_specificationversion(spec_version);
    model_.mutable_mlprogram()->set_version(1);
    opset_ = "CoreML" + std::to_string(spec_version - 1);
    function().set_opset(opset_);
    (*function().mutable_block_specializations())[opset_];
    const uint32_t header[16] = {0, 2};
    blobs_.assign(reinterpret_cast<const char*>(header), sizeof header);
  }

  mlmodel::Model& model() { return model_; }
  mlmodel::ModelDescription& description() { return *model_.mutable_description(); }
  mlmodel::Function& function() {
    return (*model_.mutable_mlprogram()->mutable_functions())["main"];
  }
  mlmodel::Block& block() { return (*function().mutable_block_specializations())[opset_]; }
  std::string& blobs() { return blobs_; }

  void input(const std::string& name, const Dims& dims) {
    set_value(name, mlmodel::FLOAT16, dims, *function().add_inputs());
    describe(name, dims, *description().add_input());
  }
  void state(const std::string& name, const Dims& dims) {
    mlmodel::NamedValueType& value = *function().add_inputs();
    value.set_name(name);
    set_type(mlmodel::FLOAT16, dims,
             *value.mutable_type()->mutable_statetype()->mutable_wrappedtype());
    mlmodel::FeatureDescription& feature = *description().add_state();
    feature.set_name(name);
    describe(dims, *feature.mutable_type()->mutable_statetype()->mutable_arraytype());
  }
  void output(const std::string& name, const Dims& dims) {
    block().add_outputs(name);
    describe(name, dims, *description().add_output());
  }

  // Adds an operation with one f16 output of the same name.
  mlmodel::Operation& op(const std::string& type, const std::string& name,
                         const Arguments& arguments, const Dims& dims) {
    mlmodel::Operation& added = *block().add_operations();
    added.set_type(type);
    for (const auto& [parameter, values] : arguments)
      for (const std::string& value : values)
        (*added.mutable_inputs())[parameter].add_arguments()->set_name(value);
    set_value(name, mlmodel::FLOAT16, dims, *added.add_outputs());
    set_name(name, added);
    return added;
  }
  void write_state(const std::string& state, const std::string& data) {
    op("write_state", state + "_written", {{"input", {state}}, {"data", {data}}}, {})
        .clear_outputs();
  }

  // Consts with immediate values.
  void ints(const std::string& name, const std::vector<int32_t>& values) {
    mlmodel::Value& value = constant(name, mlmodel::INT32, {static_cast<int64_t>(values.size())});
    for (int32_t each : values) tensor(value).mutable_ints()->add_values(each);
  }
  void integer(const std::string& name, int32_t number) {
    tensor(constant(name, mlmodel::INT32, {})).mutable_ints()->add_values(number);
  }
  void boolean(const std::string& name, bool truth) {
    tensor(constant(name, mlmodel::BOOL, {})).mutable_bools()->add_values(truth);
  }
  void text(const std::string& name, const std::string& words) {
    tensor(constant(name, mlmodel::STRING, {})).mutable_strings()->add_values(words);
  }
  void halves(const std::string& name, const Dims& dims, const std::vector<float>& values) {
    *tensor(constant(name, mlmodel::FLOAT16, dims)).mutable_bytes()->mutable_values() =
        half_bytes(values);
  }
  // Adds a const stored in weight.bin.
  void weight(const std::string& name, const Dims& dims, const std::vector<float>& values) {
    constexpr size_t kAlignment = 64;
    blobs_.resize((blobs_.size() + kAlignment - 1) / kAlignment * kAlignment);
    auto& stored = *constant(name, mlmodel::FLOAT16, dims).mutable_blobfilevalue();
    stored.set_filename("@model_path/weights/weight.bin");
    stored.set_offset(blobs_.size());
    const std::string bytes = half_bytes(values);
    const uint64_t lead[8] = {uint64_t{1} << 32 | 0xDEADBEEF, bytes.size(),
                              blobs_.size() + kAlignment};
    blobs_.append(reinterpret_cast<const char*>(lead), sizeof lead);
    blobs_ += bytes;
  }

  mlmodel::Operation& operation(std::string_view name) {
    for (mlmodel::Operation& each : *block().mutable_operations())
      if (each.outputs_size() > 0 && each.outputs(0).name() == name) return each;
    return *block().add_operations();
  }

  // Writes FOLDER/NAME.mlpackage and returns its path.
  std::string write(const std::string& folder, const std::string& name = "shard") const {
    namespace fs = std::filesystem;
    const fs::path package = fs::path(folder) / (name + ".mlpackage");
    const fs::path items = package / "Data/com.apple.CoreML";
    fs::create_directories(items / "weights");
    std::ofstream(items / "model.mlmodel", std::ios::binary) << model_.SerializeAsString();
    std::ofstream(items / "weights/weight.bin", std::ios::binary) << blobs_;
    std::ofstream(package / "Manifest.json") << R"({
  "fileFormatVersion": "1.0.0",
  "itemInfoEntries": {
    "a": {"author": "com.apple.CoreML", "description": "CoreML Model Weights", "name": "weights",
          "path": "com.apple.CoreML/weights"},
    "b": {"author": "com.apple.CoreML", "description": "CoreML Model Specification",
          "name": "model.mlmodel", "path": "com.apple.CoreML/model.mlmodel"}
  },
  "rootModelIdentifier": "b"
})";
    return package.string();
  }

 private:
  static void set_value(const std::string& name, mlmodel::DataType dtype, const Dims& dims,
                        mlmodel::NamedValueType& value) {
    value.set_name(name);
    set_type(dtype, dims, *value.mutable_type());
  }
  static void describe(const Dims& dims, mlmodel::ArrayFeatureType& array) {
    array.set_datatype(mlmodel::ArrayFeatureType::FLOAT16);
    for (int64_t size : dims) array.add_shape(size);
  }
  static void describe(const std::string& name, const Dims& dims,
                       mlmodel::FeatureDescription& feature) {
    feature.set_name(name);
    describe(dims, *feature.mutable_type()->mutable_multiarraytype());
  }
  static void set_name(const std::string& name, mlmodel::Operation& operation) {
    mlmodel::Value& value = (*operation.mutable_attributes())["name"];
    set_type(mlmodel::STRING, {}, *value.mutable_type());
    tensor(value).mutable_strings()->add_values(name);
  }
  static mlmodel::TensorValue& tensor(mlmodel::Value& value) {
    return *value.mutable_immediatevalue()->mutable_tensor();
  }
  static std::string half_bytes(const std::vector<float>& values) {
    std::string bytes;
    for (float value : values) {
      const uint16_t bits = f16_from_f32(value);
      bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    }
    return bytes;
  }
  mlmodel::Value& constant(const std::string& name, mlmodel::DataType dtype, const Dims& dims) {
    mlmodel::Operation& added = op("const", name, {}, dims);
    added.mutable_outputs(0)->mutable_type()->mutable_tensortype()->set_datatype(dtype);
    mlmodel::Value& value = (*added.mutable_attributes())["val"];
    set_type(dtype, dims, *value.mutable_type());
    return value;
  }

  mlmodel::Model model_;
  std::string opset_;
  std::string blobs_;
};

// out = sum over channels of channels 1 to 3 of (x + w) · c.
inline MilProgram sample_program() {
  MilProgram program;
  program.input("x", {2, 4});
  program.weight("w", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  program.halves("c", {1, 4}, {1, 2, 3, 4});
  program.op("add", "sum", {{"x", {"x"}}, {"y", {"w"}}}, {2, 4});
  program.op("mul", "scaled", {{"x", {"sum"}}, {"y", {"c"}}}, {2, 4});
  program.ints("begin", {0, 1});
  program.ints("size", {2, 3});
  program.op("slice_by_size", "part", {{"x", {"scaled"}}, {"begin", {"begin"}}, {"size", {"size"}}},
             {2, 3});
  program.ints("axes", {1});
  program.boolean("keep", true);
  program.op("reduce_sum", "out", {{"x", {"part"}}, {"axes", {"axes"}}, {"keep_dims", {"keep"}}},
             {2, 1});
  program.output("out", {2, 1});
  return program;
}

}  // namespace moec
