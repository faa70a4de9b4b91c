#include "backends/formats/coreml/mil_arguments.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>

#include "backends/formats/coreml/mil_values.h"

namespace moec {

std::string operation_label(const mlmodel::Operation& operation) {
  return operation.outputs_size() > 0 ? operation.outputs(0).name() : operation.type();
}

tl::unexpected<Diagnostics> Arguments::wrong(const std::string& name, std::string_view what) const {
  return fail("coreml.argument",
              fmt::format("argument \"{}\" of {} {}", name, operation_.type(), what),
              "export the model again", {.op = operation_label(operation_)});
}

bool Arguments::has(const std::string& name) const { return operation_.inputs().contains(name); }

Result<const mlmodel::Argument*> Arguments::find(const std::string& name) {
  known_.insert(name);
  const auto found = operation_.inputs().find(name);
  if (found == operation_.inputs().end()) return wrong(name, "is missing");
  return &found->second;
}

// Rejects an immediate operand, because it would need an additional Constant of the IR.
Result<std::vector<std::string>> Arguments::operands(const std::string& name) {
  MOEC_ASSIGN(const mlmodel::Argument* argument, find(name));
  std::vector<std::string> names;
  for (const auto& binding : argument->arguments()) {
    if (binding.name().empty()) return wrong(name, "must name a value");
    names.push_back(binding.name());
  }
  return names;
}

Result<std::string> Arguments::operand(const std::string& name) {
  MOEC_ASSIGN(const std::vector<std::string> names, operands(name));
  if (names.size() != 1) return wrong(name, "must be a single value");
  return names.front();
}

// coremltools binds arguments to consts by name; an immediate value in the binding is valid, too.
Result<const mlmodel::Value*> Arguments::constant(const std::string& name) {
  MOEC_ASSIGN(const mlmodel::Argument* argument, find(name));
  if (argument->arguments_size() != 1) return wrong(name, "must be a single value");
  const auto& binding = argument->arguments(0);
  if (binding.has_value()) return &binding.value();
  const auto found = consts_.find(binding.name());
  if (found == consts_.end()) return wrong(name, "must be a constant");
  return found->second;
}

Result<int64_t> Arguments::integer(const std::string& name) {
  MOEC_ASSIGN(const mlmodel::Value* value, constant(name));
  return integer_of(*value, name);
}

Result<std::vector<int64_t>> Arguments::integers(const std::string& name) {
  MOEC_ASSIGN(const mlmodel::Value* value, constant(name));
  return integers_of(*value, name);
}

Result<bool> Arguments::boolean(const std::string& name) {
  MOEC_ASSIGN(const mlmodel::Value* value, constant(name));
  return boolean_of(*value, name);
}

Result<std::string> Arguments::text(const std::string& name) {
  MOEC_ASSIGN(const mlmodel::Value* value, constant(name));
  return text_of(*value, name);
}

Result<double> Arguments::number(const std::string& name) {
  MOEC_ASSIGN(const mlmodel::Value* value, constant(name));
  return number_of(*value, name);
}

Status Arguments::must_be(const std::string& name, bool value) {
  MOEC_ASSIGN(const bool given, boolean(name));
  return given == value ? Status() : wrong(name, "has an unsupported value");
}

Status Arguments::must_be(const std::string& name, const std::string& value) {
  MOEC_ASSIGN(const std::string given, text(name));
  return given == value ? Status() : wrong(name, "has an unsupported value");
}

// Compares exactly, because the IR cannot express an op with any other value.
Status Arguments::must_be(const std::string& name, double value) {
  MOEC_ASSIGN(const double given, number(name));
  return given == value ? Status() : wrong(name, "has an unsupported value");
}

Status Arguments::must_all_be(const std::string& name, int64_t value) {
  MOEC_ASSIGN(const std::vector<int64_t> given, integers(name));
  const bool good = std::all_of(given.begin(), given.end(), [&](int64_t i) { return i == value; });
  return good ? Status() : wrong(name, "has an unsupported value");
}

Status Arguments::finish() const {
  for (const auto& [name, argument] : operation_.inputs())
    if (!known_.contains(name)) return wrong(name, "is unsupported");
  return {};
}

}  // namespace moec
