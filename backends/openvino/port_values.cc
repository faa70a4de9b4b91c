#include "backends/openvino/port_values.h"

#include "backends/weights/views/convert.h"

namespace moec {

PortBytes to_port(const Type& type, const std::vector<float>& values) {
  PortBytes bytes(values.size() * static_cast<size_t>(dtype_bytes(type.dtype)));
  encode(type.dtype, values.data(), values.size(), bytes.data());
  return bytes;
}

std::vector<float> from_port(const Type& type, const void* elements) {
  std::vector<float> values(static_cast<size_t>(type.elements()));
  decode(type.dtype, static_cast<const std::byte*>(elements), values.size(), values.data());
  return values;
}

}  // namespace moec
