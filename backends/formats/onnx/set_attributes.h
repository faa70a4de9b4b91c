// Sets attributes of ONNX nodes.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

inline void set_int(onnx::NodeProto& node, std::string name, int64_t value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::move(name));
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

inline void set_ints(onnx::NodeProto& node, std::string name, const std::vector<int64_t>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::move(name));
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute.add_ints(value);
}

inline void set_float(onnx::NodeProto& node, std::string name, double value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::move(name));
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(static_cast<float>(value));
}

inline void set_string(onnx::NodeProto& node, std::string name, std::string value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(std::move(name));
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(std::move(value));
}

}  // namespace moec
