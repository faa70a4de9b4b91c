#include "backends/formats/onnx/node_attributes.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

namespace moec {

using onnx::AttributeProto;

// Marks the attribute as known. Searches linearly, because a node has few attributes.
const AttributeProto* Attributes::find(const std::string& name) {
  known_.insert(name);
  for (const AttributeProto& attribute : node_.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

tl::unexpected<Diagnostics> Attributes::wrong(const std::string& name) const {
  return fail("onnx.attribute",
              fmt::format("attribute \"{}\" of {} is missing or has an unsupported value", name,
                          node_.op_type()),
              "export the model without this attribute", {.op = node_.name()});
}

// `otherwise` is the default that ONNX defines; without it the attribute is required.
Result<int64_t> Attributes::integer(const std::string& name, std::optional<int64_t> otherwise) {
  const AttributeProto* found = find(name);
  if (!found && otherwise) return *otherwise;
  if (!found || found->type() != AttributeProto::INT) return wrong(name);
  return found->i();
}

Result<float> Attributes::number(const std::string& name, float otherwise) {
  const AttributeProto* found = find(name);
  if (!found) return otherwise;
  if (found->type() != AttributeProto::FLOAT) return wrong(name);
  return found->f();
}

bool Attributes::has(const std::string& name) { return find(name) != nullptr; }

Result<std::vector<int64_t>> Attributes::integers(const std::string& name) {
  const AttributeProto* found = find(name);
  if (!found) return std::vector<int64_t>();
  if (found->type() != AttributeProto::INTS) return wrong(name);
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

// An absent attribute is accepted, so `value` must be the default of ONNX.
Status Attributes::must_be(const std::string& name, int64_t value) {
  MOEC_ASSIGN(const int64_t given, integer(name, value));
  if (given != value) return wrong(name);
  return {};
}

Status Attributes::must_be_number(const std::string& name, float value) {
  MOEC_ASSIGN(const float given, number(name, value));
  if (given != value) return wrong(name);
  return {};
}

// An absent list is accepted, so `value` must be the default of ONNX.
Status Attributes::must_all_be(const std::string& name, int64_t value) {
  MOEC_ASSIGN(const std::vector<int64_t> given, integers(name));
  if (std::any_of(given.begin(), given.end(), [&](int64_t i) { return i != value; }))
    return wrong(name);
  return {};
}

Status Attributes::must_be(const std::string& name, const std::string& value) {
  const AttributeProto* found = find(name);
  if (found && (found->type() != AttributeProto::STRING || found->s() != value)) return wrong(name);
  return {};
}

Status Attributes::finish() const {
  for (const AttributeProto& attribute : node_.attribute())
    if (!known_.count(attribute.name())) return wrong(attribute.name());
  return {};
}

}  // namespace moec
