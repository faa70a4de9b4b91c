#include "backends/weights/views/view_node.h"

#include <algorithm>

namespace moec {

int64_t elements_of(const Region& region) {
  int64_t product = 1;
  for (int64_t size : region.size) product *= size;
  return product;
}

Region whole_region(const Dims& dims) { return {Dims(dims.size(), 0), dims}; }

Status ViewNode::read_packed(const Region& region, std::byte* to, ReadContext& context) const {
  return read(region, {to, row_major_steps(region.size, static_cast<int64_t>(width()))}, context);
}

NodePtr reshape_node(const NodePtr& node, const Dims& dims) {
  if (NodePtr reshaped = node->reshape(dims)) return reshaped;
  return reindex_node(node, whole(dims));
}

std::vector<AxisGroup> axis_groups(const Dims& old_dims, const Dims& new_dims) {
  std::vector<AxisGroup> groups;
  for (size_t i = 0, j = 0; i < old_dims.size() || j < new_dims.size();) {
    AxisGroup group{i, i, j, j};
    int64_t old_product = i < old_dims.size() ? old_dims[i++] : 1;
    int64_t new_product = j < new_dims.size() ? new_dims[j++] : 1;
    // Terminates: both shapes have equally many elements, so the products are equal at the end at
    // the latest.
    while (old_product != new_product) {
      if (old_product < new_product)
        old_product *= old_dims[i++];
      else
        new_product *= new_dims[j++];
    }
    group.old_end = i, group.new_end = j;
    groups.push_back(group);
  }
  return groups;
}

// Finds the outermost axis along which `begin` is at the start of a step and at least one step
// fits. The region covers as many steps along this axis as fit, and all of the inner axes.
int64_t first_region(const Dims& dims, int64_t begin, int64_t end, Region& region) {
  const Dims steps = row_major_steps(dims, 1);
  region = {Dims(dims.size(), 0), Dims(dims.size(), 1)};
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t index = begin / steps[axis] % dims[axis];
    region.begin[axis] = index;
    if (begin % steps[axis] != 0 || end - begin < steps[axis]) continue;
    region.size[axis] = std::min((end - begin) / steps[axis], dims[axis] - index);
    for (size_t rest = axis + 1; rest < dims.size(); ++rest) region.size[rest] = dims[rest];
    return begin + region.size[axis] * steps[axis];
  }
  return begin + 1;  // a scalar
}

Walk scatter_walk(const Region& region, int64_t unit, const Destination& to) {
  const Dims from = row_major_steps(region.size, unit);
  Walk walk;
  for (size_t i = 0; i < from.size(); ++i) walk.push_back({region.size[i], from[i], to.steps[i]});
  return walk;
}

bool is_row_major(const Region& region, int64_t unit, const Destination& to) {
  for (const WalkAxis& axis : scatter_walk(region, unit, to))
    if (axis.extent > 1 && axis.from != axis.to) return false;
  return true;
}

}  // namespace moec
