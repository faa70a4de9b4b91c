// Elements by signed index. Sizes and axes of tensors, expert and layer numbers are int64_t all
// over the tree; the standard containers want size_t.
#pragma once

#include <cstddef>

namespace moec {

// The element of a vector, array or span at an index that is known to be inside; an enumerator is
// the index of its entry in a table.
template <class Container, class Index>
constexpr decltype(auto) at(Container&& container, Index index) {
  return container[static_cast<size_t>(index)];
}

}  // namespace moec
