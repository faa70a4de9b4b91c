// Values of ports as OpenVINO has them, and as f32.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph/type.h"

namespace moec {

using PortBytes = std::vector<std::byte>;

// The elements in the type of the port: f32, f16 or bf16.
PortBytes to_port(const Type& type, const std::vector<float>& values);
std::vector<float> from_port(const Type& type, const void* elements);

}  // namespace moec
