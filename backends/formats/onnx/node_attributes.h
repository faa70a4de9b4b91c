// The attributes of an ONNX node. Each one must be asked for, so that an attribute that the reader
// does not know is an error and is not ignored.
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

  // Errors of all: onnx.attribute.
  Result<int64_t> integer(const std::string& name, std::optional<int64_t> otherwise = {});
  Result<std::vector<int64_t>> integers(const std::string& name);  // empty when absent
  // The attribute, if present, must have this value.
  Status must_be(const std::string& name, int64_t value);
  Status must_all_be(const std::string& name, int64_t value);
  Status must_be(const std::string& name, const std::string& value);
  // Call after all have been asked for: fails when there is another one.
  Status finish() const;

 private:
  const onnx::AttributeProto* find(const std::string& name);
  tl::unexpected<Diagnostics> wrong(const std::string& name) const;

  const onnx::NodeProto& node_;
  std::set<std::string> known_;
};

}  // namespace moec
