// Elements of a constant as bytes in memory order, and back. Graph files store them little-endian.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/type.h"

namespace moec {

// `values` contains one value per element, or a single value for all elements, and each value is in
// the range of the type (check_constants). Rounds to the element type.
std::string element_bytes(DType dtype, const std::vector<double>& values);

// `bytes` contains whole elements.
std::vector<double> element_values(DType dtype, std::string_view bytes);

// False if an i64 of `bytes` has a magnitude above 2^53, up to which doubles are exact.
bool fit_doubles(std::string_view bytes);

}  // namespace moec
