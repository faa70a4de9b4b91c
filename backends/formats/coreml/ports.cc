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

// Unlike programs, ports have no element type bool.
Result<DType> dtype_of(const ArrayFeatureType& array, const std::string& port) {
  switch (array.datatype()) {
    case ArrayFeatureType::FLOAT16:
      return DType::f16;
    case ArrayFeatureType::FLOAT32:
      return DType::f32;
    case ArrayFeatureType::INT32:
      return DType::i32;
    default:
      return wrong(fmt::format("a port has the unsupported element type {}",
                               static_cast<int>(array.datatype())),
                   port);
  }
}

// The size of a range at the given width.
Result<int64_t> size_at(uint64_t least, int64_t largest, const std::optional<ReadWidth>& width,
                        const std::string& port) {
  // Clamps `least` before the conversion, because it is an unsigned 64-bit number from the file.
  const auto lower = static_cast<int64_t>(std::min<uint64_t>(least, kMaxElements));
  if (!width || lower < 1 || largest > kMaxElements || largest < lower)
    return fail(
        "coreml.dynamic_shape",
        fmt::format("the metadata state no token widths for sizes {} to {}", least, largest),
        "export the model with static shapes", {.op = port});
  const int64_t widths = width->range.largest - width->range.least;
  // Each size of a range is a linear function of the width: lower + growth * (tokens - least).
  // read_metadata() ensures that `widths` is positive.
  const int64_t growth = (largest - lower) / widths;
  if (growth * widths != largest - lower)
    return fail("coreml.dynamic_shape",
                fmt::format("sizes {} to {} are not linear in token widths {} to {}", least,
                            largest, width->range.least, width->range.largest),
                "export the model with static shapes", {.op = port});
  return lower + growth * (width->tokens - width->range.least);
}

// Returns nullopt for a port of a range package without a shape. described_type() rejects such an
// input.
Result<std::optional<Dims>> dims_of(const ArrayFeatureType& array,
                                    const std::optional<ReadWidth>& width,
                                    const std::string& port) {
  if (!array.has_shaperange()) {
    if (width && array.shape().empty()) return std::nullopt;
    return Dims(array.shape().begin(), array.shape().end());
  }
  if (array.shaperange().sizeranges_size() != array.shape_size())
    return wrong("the size range and the shape differ in rank", port);
  Dims dims;
  for (int axis = 0; axis < array.shape_size(); ++axis) {
    const auto& range = array.shaperange().sizeranges(axis);
    int64_t size = range.upperbound();
    // Equal bounds mean a fixed size. A negative upper bound means no limit, and size_at() rejects
    // it.
    if (size < 0 || range.lowerbound() != static_cast<uint64_t>(size)) {
      MOEC_ASSIGN(size, size_at(range.lowerbound(), range.upperbound(), width, port));
    }
    // The shape states the default size, which must lie in the range.
    const int64_t usual = array.shape(axis);
    if (usual > range.upperbound() || usual < 0 ||
        static_cast<uint64_t>(usual) < range.lowerbound())
      return wrong(fmt::format("size {} is outside its range", usual), port);
    dims.push_back(size);
  }
  return dims;
}

// Reads inputs or outputs, or states if `states` is set. States always have fixed sizes.
Result<PortMap> read_features(const Features& features, bool states,
                              const std::optional<ReadWidth>& width) {
  PortMap ports;
  for (const FeatureDescription& feature : features) {
    const mlmodel::FeatureType& type = feature.type();
    const std::string& name = feature.name();
    if (states ? !type.has_statetype() : !type.has_multiarraytype())
      return wrong(states ? "a state must be an array" : "a port must be an array", name);
    const ArrayFeatureType& array = states ? type.statetype().arraytype() : type.multiarraytype();
    MOEC_ASSIGN(const DType dtype, dtype_of(array, name));
    MOEC_ASSIGN(std::optional<Dims> dims, dims_of(array, states ? std::nullopt : width, name));
    if (!ports.emplace(name, Port{dtype, std::move(dims)}).second)
      return wrong("two ports have this name", name);
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
  return wrong(fmt::format("the description has no function \"{}\"", function), "");
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
    return wrong("the description lacks a port of the program", name);
  Type described{port->second.dtype, *port->second.dims};
  if (agrees(stated, described)) return described;
  return wrong(fmt::format("the description states type {}, but the program states {}",
                           to_string(described), to_string(stated)),
               name);
}

namespace {

class NameReader {
 public:
  explicit NameReader(const CoremlMetadata& metadata) : metadata_(metadata) {}

  // A const is an argument if ops use it only for parameters. This is known only after all
  // operations, so names are read in a separate pass. A const that no operation or output uses
  // remains a value.
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
  // Each name is defined once: inputs, states and outputs of operations share one name space.
  Status define(const std::string& name) {
    if (!name.empty() && names_.all.insert(name).second) return {};
    return fail("coreml.duplicate_name", "a value has no name, or the name of an earlier value",
                "export the model again", {.op = name});
  }

  Status use(const std::string& name, const std::string& label) {
    mentioned_.insert(name);
    if (names_.all.contains(name)) return {};
    return fail("coreml.undefined", fmt::format("\"{}\" is used before its definition", name),
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

  // Returns the names that become operands of an IR op. A state is not a value, and the parts of a
  // coded weight belong to its view.
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
      return fail("coreml.value", "a const must have one output, a name and a value",
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
