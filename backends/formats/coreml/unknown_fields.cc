#include "backends/formats/coreml/unknown_fields.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <mlmodel.pb.h>

#include <vector>

namespace moec {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string find_in(const Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty())
    return fmt::format("field {} of {}", unknown.field(0).number(),
                       message.GetDescriptor()->name());
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->full_name() == "moec.mlmodel.Program.attributes") continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string found =
          find_in(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                       : reflection.GetMessage(message, field));
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace

std::string unknown_field(const mlmodel::Model& model) { return find_in(model); }

}  // namespace moec
