#include "backends/formats/coreml/ports.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>

#include "backends/formats/coreml/mil_values.h"
#include "backends/formats/coreml/read_mil_codes.h"
#include "backends/formats/coreml/read_mil_ops.h"

namespace moec {

namespace {

using mlmodel::ArrayFeatureType;
using mlmodel::FeatureDescription;
using Features = google::protobuf::RepeatedPtrField<FeatureDescription>;

tl::unexpected<Diagnostics> wrong(std::string cause, const std::string& port) {
  return fail("coreml.description", std::move(cause), "export the model again", {.op = port});
}

Result<DType> dtype_of(const ArrayFeatureType& array, const std::string& port) {
  switch (array.datatype()) {
    case ArrayFeatureType::FLOAT16:
      return DType::f16;
    case ArrayFeatureType::FLOAT32:
      return DType::f32;
    case ArrayFeatureType::INT32:
      return DType::i32;
    default:
      return wrong(
          fmt::format("element type {} of a port is not read", static_cast<int>(array.datatype())),
          port);
  }
}

// The size at the width, of a range that is not a single size.
Result<int64_t> size_at(uint64_t least, int64_t largest, const std::optional<ReadWidth>& width,
                        const std::string& port) {
  const auto lower = static_cast<int64_t>(std::min<uint64_t>(least, kMaxElements));
  if (!width || lower < 1 || largest > kMaxElements || largest < lower)
    return fail("coreml.dynamic_shape",
                fmt::format("sizes from {} to {} are read only if the metadata states the widths",
                            least, largest),
                "export the model with static shapes", {.op = port});
  const int64_t widths = width->range.largest - width->range.least;
  const int64_t growth = (largest - lower) / widths;
  if (growth * widths != largest - lower)
    return fail("coreml.dynamic_shape",
                fmt::format("sizes from {} to {} do not grow evenly over {} to {} tokens", least,
                            largest, width->range.least, width->range.largest),
                "export the model with static shapes", {.op = port});
  return lower + growth * (width->tokens - width->range.least);
}

Result<std::optional<Dims>> dims_of(const ArrayFeatureType& array,
                                    const std::optional<ReadWidth>& width,
                                    const std::string& port) {
  if (!array.has_shaperange()) {
    if (width && array.shape().empty()) return std::nullopt;
    return Dims(array.shape().begin(), array.shape().end());
  }
  if (array.shaperange().sizeranges_size() != array.shape_size())
    return wrong("the range has not the rank of the shape", port);
  Dims dims;
  for (int axis = 0; axis < array.shape_size(); ++axis) {
    const auto& range = array.shaperange().sizeranges(axis);
    int64_t size = range.upperbound();
    if (size < 0 || range.lowerbound() != static_cast<uint64_t>(size)) {
      MOEC_ASSIGN(size, size_at(range.lowerbound(), range.upperbound(), width, port));
    }
    const int64_t usual = array.shape(axis);
    if (usual > range.upperbound() || usual < 0 ||
        static_cast<uint64_t>(usual) < range.lowerbound())
      return wrong(fmt::format("size {} is not in its range", usual), port);
    dims.push_back(size);
  }
  return dims;
}

Result<PortMap> read_features(const Features& features, bool states,
                              const std::optional<ReadWidth>& width) {
  PortMap ports;
  for (const FeatureDescription& feature : features) {
    const mlmodel::FeatureType& type = feature.type();
    const std::string& name = feature.name();
    if (states ? !type.has_statetype() : !type.has_multiarraytype())
      return wrong(states ? "a state must hold an array" : "a port must be an array", name);
    const ArrayFeatureType& array = states ? type.statetype().arraytype() : type.multiarraytype();
    MOEC_ASSIGN(const DType dtype, dtype_of(array, name));
    MOEC_ASSIGN(std::optional<Dims> dims, dims_of(array, states ? std::nullopt : width, name));
    if (!ports.emplace(name, Port{dtype, std::move(dims)}).second)
      return wrong("two ports have one name", name);
  }
  return ports;
}

template <class Described>
Result<Ports> read_described(const Described& described, const std::optional<ReadWidth>& width) {
  Ports ports;
  MOEC_ASSIGN(ports.inputs, read_features(described.input(), false, width));
  MOEC_ASSIGN(ports.outputs, read_features(described.output(), false, width));
  MOEC_ASSIGN(ports.states, read_features(described.state(), true, width));
  return ports;
}

}  // namespace

Result<Ports> read_ports(const mlmodel::ModelDescription& description, const std::string& function,
                         const std::optional<ReadWidth>& width) {
  if (function.empty()) return read_described(description, width);
  for (const mlmodel::FunctionDescription& described : description.functions())
    if (described.name() == function) return read_described(described, width);
  return wrong(fmt::format("function \"{}\" is not described", function), "");
}

Result<Type> described_type(const PortMap& ports, const mlmodel::NamedValueType& stated_port,
                            bool is_range) {
  const std::string& name = stated_port.name();
  const mlmodel::ValueType& type = stated_port.type().has_statetype()
                                       ? stated_port.type().statetype().wrappedtype()
                                       : stated_port.type();
  MOEC_ASSIGN(const StatedType stated, stated_type(type.tensortype(), name));
  if (!is_range) MOEC_TRY(fixed_type(type.tensortype(), name));
  const auto port = ports.find(name);
  if (port == ports.end() || !port->second.dims)
    return wrong("the program has a port that the description has not", name);
  Type described{port->second.dtype, *port->second.dims};
  if (agrees(stated, described)) return described;
  return wrong(fmt::format("the description states {}, the program {}", to_string(described),
                           to_string(stated)),
               name);
}

namespace {

class NameReader {
 public:
  explicit NameReader(const CoremlMetadata& metadata) : metadata_(metadata) {}

  Result<FunctionNames> read(const mlmodel::Function& function, const mlmodel::Block& block) {
    for (const mlmodel::NamedValueType& input : function.inputs()) {
      MOEC_TRY(define(input.name()));
      if (input.type().has_statetype()) names_.states.insert(input.name());
    }
    for (const mlmodel::Operation& operation : block.operations()) MOEC_TRY(read(operation));
    for (const std::string& output : block.outputs()) {
      MOEC_TRY(use(output, output));
      values_.insert(output);
    }
    for (const auto& [name, value] : names_.consts)
      if (mentioned_.contains(name) && !values_.contains(name)) names_.arguments.insert(name);
    return std::move(names_);
  }

 private:
  Status define(const std::string& name) {
    if (!name.empty() && names_.all.insert(name).second) return {};
    return fail("coreml.duplicate_name", "a value has no name, or one that is defined already",
                "export the model again", {.op = name});
  }

  Status use(const std::string& name, const std::string& label) {
    mentioned_.insert(name);
    if (names_.all.contains(name)) return {};
    return fail("coreml.undefined", fmt::format("\"{}\" is used before anything defines it", name),
                "export the model again", {.op = label});
  }

  Status read(const mlmodel::Operation& operation) {
    const std::string label = operation_label(operation);
    for (const auto& [parameter, argument] : operation.inputs())
      for (const auto& binding : argument.arguments())
        if (!binding.has_value()) MOEC_TRY(use(binding.name(), label));
    if (operation.type() == kConst) {
      MOEC_TRY(read_const(operation));
    } else {
      MOEC_ASSIGN(const std::vector<std::string> operands, operands_of(operation));
      values_.insert(operands.begin(), operands.end());
    }
    for (const mlmodel::NamedValueType& output : operation.outputs())
      MOEC_TRY(define(output.name()));
    return {};
  }

  Result<std::vector<std::string>> operands_of(const mlmodel::Operation& operation) const {
    Arguments arguments(operation, names_.consts);
    const std::string& type = operation.type();
    if (type == kReadState || is_coded_weight(operation)) return std::vector<std::string>();
    if (type != kIdentity && type != kWriteState)
      return operand_names(operation, is_negation(operation, metadata_));
    MOEC_ASSIGN(std::string operand, arguments.operand(type == kIdentity ? "x" : "data"));
    return std::vector<std::string>{std::move(operand)};
  }

  Status read_const(const mlmodel::Operation& operation) {
    const auto value = operation.attributes().find("val");
    const bool whole = operation.inputs().empty() && operation.outputs_size() == 1 &&
                       operation.blocks().empty() && value != operation.attributes().end();
    bool named = true;
    for (const auto& [key, attribute] : operation.attributes())
      named &= key == "name" || key == "val";
    if (!whole || !named)
      return fail("coreml.value", "a const must have one output, and a value besides its name",
                  "export the model again", {.op = operation_label(operation)});
    names_.consts.emplace(operation.outputs(0).name(), &value->second);
    return {};
  }

  const CoremlMetadata& metadata_;
  FunctionNames names_;
  std::set<std::string, std::less<>> mentioned_, values_;
};

}  // namespace

bool is_negation(const mlmodel::Operation& operation, const CoremlMetadata& metadata) {
  return operation.type() == "mul" && metadata.negations.contains(operation_label(operation));
}

Result<FunctionNames> read_names(const mlmodel::Function& function, const mlmodel::Block& block,
                                 const CoremlMetadata& metadata) {
  return NameReader(metadata).read(function, block);
}

}  // namespace moec
