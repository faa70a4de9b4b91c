#include "backends/formats/coreml/model_writer.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>

#include "backends/emit/metadata_keys.h"
#include "backends/emit/shard_facts.h"
#include "backends/formats/coreml/mil_names.h"
#include "backends/formats/coreml/token_range.h"

namespace moec {
namespace {

using mlmodel::ArrayFeatureType;

ArrayFeatureType::ArrayDataType array_dtype(DType dtype) {
  if (dtype == DType::f16) return ArrayFeatureType::FLOAT16;
  return dtype == DType::f32 ? ArrayFeatureType::FLOAT32 : ArrayFeatureType::INT32;
}

void fill_array(const Type& type, ArrayFeatureType& array) {
  array.set_datatype(array_dtype(type.dtype));
  for (int64_t size : type.dims) array.add_shape(size);
}

void add_ranges(const Dims& least, const Dims& largest, ArrayFeatureType& array) {
  for (size_t i = 0; i < least.size(); ++i) {
    mlmodel::SizeRange& range = *array.mutable_shaperange()->add_sizeranges();
    range.set_lowerbound(static_cast<uint64_t>(least[i]));
    range.set_upperbound(largest[i]);
  }
}

const Type& widest_type(const MilFunction& function, ValueId value) {
  return (function.widest ? function.widest : function.shard)->type(value);
}

// Describes the ports of one function. `Description` is ModelDescription, which has the ports of a
// model with a single function, or FunctionDescription.
template <class Description>
void describe_ports(const MilFunction& function, Description& description) {
  const Shard& shard = *function.shard;
  for (ValueId input : shard.inputs) {
    mlmodel::FeatureDescription& port = *description.add_input();
    port.set_name(shard.values[input].name);
    ArrayFeatureType& array = *port.mutable_type()->mutable_multiarraytype();
    fill_array(shard.type(input), array);
    const Dims& largest = widest_type(function, input).dims;
    if (largest != shard.type(input).dims) add_ranges(shard.type(input).dims, largest, array);
  }
  for (const Output& output : shard.outputs) {
    mlmodel::FeatureDescription& port = *description.add_output();
    port.set_name(output.name);
    ArrayFeatureType& array = *port.mutable_type()->mutable_multiarraytype();
    fill_array(shard.type(output.value), array);
    // Only inputs have ranges of sizes. An output whose size depends on them is described without
    // a shape.
    if (widest_type(function, output.value).dims != shard.type(output.value).dims)
      array.clear_shape();
  }
  for (const State& state : shard.states) {
    mlmodel::FeatureDescription& port = *description.add_state();
    port.set_name(state.name);
    fill_array(state.type, *port.mutable_type()->mutable_statetype()->mutable_arraytype());
  }
}

}  // namespace

void write_model(std::span<const MilFunction> functions, const DataLayout& layout, int spec_version,
                 const std::string& family, mlmodel::Model& model) {
  const bool several = functions.size() > 1;
  model.set_specificationversion(spec_version);
  model.mutable_mlprogram()->set_version(1);
  mlmodel::ModelDescription& description = *model.mutable_description();
  mlmodel::Metadata& metadata = *description.mutable_metadata();
  metadata.set_shortdescription(describe_file(*functions.front().shard, family));
  metadata.set_versionstring(MOEC_VERSION);
  metadata.set_author("moec");
  if (several) description.set_defaultfunctionname(functions.front().name);
  for (const MilFunction& function : functions) {
    std::map<std::string, std::string> entries;
    write_function(function, layout, spec_version,
                   (*model.mutable_mlprogram()->mutable_functions())[function.name], entries);
    for (const auto& [name, lines] : entries)
      (*metadata.mutable_userdefined())[metadata_key(name, several ? function.name : "")] = lines;
    if (!several) {
      describe_ports(function, description);
      continue;
    }
    mlmodel::FunctionDescription& ports = *description.add_functions();
    ports.set_name(function.name);
    describe_ports(function, ports);
  }
}

}  // namespace moec
