#include "backends/formats/coreml/function_names.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include "backends/formats/coreml/read_mil_codes.h"
#include "backends/formats/coreml/read_mil_ops.h"

namespace moec {
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
