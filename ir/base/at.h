// Element access by a signed index or an enumerator. Tensor sizes, axes, expert and layer numbers
// are int64_t throughout, while the standard containers index by size_t.
#pragma once

#include <cstddef>

namespace moec {

// Returns the element of a vector, array or span at `index`. The index is not checked. An
// enumerator indexes its entry in a table (ir/base/enum_table.h).
template <class Container, class Index>
constexpr decltype(auto) at(Container&& container, Index index) {
  return container[static_cast<size_t>(index)];
}

}  // namespace moec
