#include "backends/formats/coreml/source_reader.h"

#include <mlmodel.pb.h>

#include <algorithm>
#include <functional>

#include "backends/formats/coreml/mil_values.h"

namespace moec {

WeightView add_part(const std::string& name, const Type& type, uint64_t offset,
                    const SourceContext& context) {
  if (context.weights.files.empty())
    context.weights.files.push_back({context.blobs.path(), context.blobs.bytes()});
  context.weights.tensors[name] = {0, offset, type};
  return tensor_view(name, type);
}

Result<OpData> read_source(const mlmodel::Value& value, const std::string& name,
                           const SourceContext& context) {
  MOEC_ASSIGN(Type type, fixed_type(value.type().tensortype(), name));
  std::vector<double> values;
  if (value.has_blobfilevalue()) {
    MOEC_ASSIGN(const uint64_t offset, context.blobs.locate(value, type, name));
    if (!context.is_constant) return Weight{add_part(name, type, offset, context)};
    MOEC_ASSIGN(values, context.blobs.values(offset, type, name));
  } else {
    MOEC_ASSIGN(values, immediate_values(value, type, name));
  }
  const auto differs = std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>());
  if (differs == values.end()) values.resize(1);
  return Constant{std::move(type), std::move(values)};
}

}  // namespace moec
