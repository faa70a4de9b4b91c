// Reads the attributes of an ONNX node. finish() fails on attributes that were not requested, so
// that unknown attributes are rejected instead of ignored.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace moec {

class Attributes {
 public:
  explicit Attributes(const onnx::NodeProto& node) : node_(node) {}

  // All functions fail with onnx.attribute.
  Result<int64_t> integer(const std::string& name, std::optional<int64_t> otherwise = {});
  Result<float> number(const std::string& name, float otherwise);
  bool has(const std::string& name);
  Result<std::vector<int64_t>> integers(const std::string& name);  // empty if absent
  // Fail if the attribute is present with another value.
  Status must_be(const std::string& name, int64_t value);
  Status must_be_number(const std::string& name, float value);
  Status must_all_be(const std::string& name, int64_t value);
  Status must_be(const std::string& name, const std::string& value);
  // Fails if the node has an attribute that was not requested. Call it last.
  Status finish() const;

 private:
  const onnx::AttributeProto* find(const std::string& name);
  tl::unexpected<Diagnostics> wrong(const std::string& name) const;

  const onnx::NodeProto& node_;
  std::set<std::string> known_;
};

}  // namespace moec
