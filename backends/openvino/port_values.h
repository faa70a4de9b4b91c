// Converts port values between f32 and OpenVINO's element types.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph/type.h"

namespace moec {

using PortBytes = std::vector<std::byte>;

// Convert to and from `type`, whose element type must be f32, f16 or bf16.
PortBytes to_port(const Type& type, const std::vector<float>& values);
std::vector<float> from_port(const Type& type, const void* elements);

}  // namespace moec
