// Nodes that rearrange elements: concatenation, and reindexing for reshapes that a child cannot
// express.
#include <algorithm>
#include <numeric>

#include "backends/weights/views/view_node.h"

namespace moec {
namespace {

class ConcatNode : public ViewNode {
 public:
  ConcatNode(Type type, std::vector<NodePtr> parts, size_t axis)
      : ViewNode(std::move(type)), parts_(std::move(parts)), axis_(axis) {
    // starts_ has one element more than parts_, so starts_[i + 1] is the end of part i.
    for (const NodePtr& part : parts_) starts_.push_back(starts_.back() + part->type().dims[axis_]);
  }

  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    const int64_t begin = region.begin[axis_], end = begin + region.size[axis_];
    for (size_t i = part_at(begin); i < parts_.size() && starts_[i] < end; ++i) {
      const int64_t from = std::max(begin, starts_[i]);
      Region inside = region;
      inside.begin[axis_] = from - starts_[i];
      inside.size[axis_] = std::min(end, starts_[i + 1]) - from;
      MOEC_TRY(
          parts_[i]->read(inside, {to.data + (from - begin) * to.steps[axis_], to.steps}, context));
    }
    return {};
  }

  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    uint64_t most = 0;
    for (const NodePtr& part : parts_)
      most = std::max(most, part->scratch_bytes(elements, options));
    return most;
  }

  bool reorders() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const NodePtr& part) { return part->reorders(); });
  }

  NodePtr slice(const SliceStep& step) const override {
    if (static_cast<size_t>(step.axis) != axis_)
      return map_parts(axis_, [&](const NodePtr& part) { return part->slice(step); });
    std::vector<NodePtr> kept;
    const int64_t end = step.begin + step.size;
    for (size_t i = part_at(step.begin); i < parts_.size() && starts_[i] < end; ++i) {
      const int64_t from = std::max(step.begin, starts_[i]);
      kept.push_back(
          parts_[i]->slice({step.axis, from - starts_[i], std::min(end, starts_[i + 1]) - from}));
    }
    return concat_node(std::move(kept), axis_);
  }

  NodePtr permute(const PermuteStep& step) const override {
    const auto moved = std::find(step.axes.begin(), step.axes.end(), static_cast<int64_t>(axis_));
    return map_parts(static_cast<size_t>(moved - step.axes.begin()),
                     [&](const NodePtr& part) { return part->permute(step); });
  }

  // Each part can be reshaped separately if a new axis starts where the concatenated axis starts
  // and each part fills whole steps of the new axis.
  NodePtr reshape(const Dims& dims) const override {
    const int64_t outer = product(type().dims, 0, axis_);
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (product(dims, 0, axis) == outer && parts_fill(product(dims, axis + 1, dims.size())))
        return reshape_parts(dims, axis);
    return nullptr;
  }

 private:
  static int64_t product(const Dims& dims, size_t begin, size_t end) {
    return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                           dims.begin() + static_cast<std::ptrdiff_t>(end), int64_t{1},
                           std::multiplies<>());
  }

  // Returns the number of elements of a part per position of the axes before the concatenated one.
  int64_t elements_along(const NodePtr& part) const {
    return product(part->type().dims, axis_, type().rank());
  }

  bool parts_fill(int64_t step) const {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const NodePtr& part) { return elements_along(part) % step == 0; });
  }

  NodePtr reshape_parts(const Dims& dims, size_t axis) const {
    const int64_t step = product(dims, axis + 1, dims.size());
    return map_parts(axis, [&](const NodePtr& part) {
      Dims part_dims = dims;
      part_dims[axis] = elements_along(part) / step;
      return reshape_node(part, part_dims);
    });
  }

  template <class Map>
  NodePtr map_parts(size_t axis, Map map) const {
    std::vector<NodePtr> mapped;
    for (const NodePtr& part : parts_) mapped.push_back(map(part));
    return concat_node(std::move(mapped), axis);
  }

  size_t part_at(int64_t index) const {
    return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), index) -
                               starts_.begin() - 1);
  }

  std::vector<NodePtr> parts_;
  size_t axis_;
  std::vector<int64_t> starts_ = {0};  // start of each part along the axis, and the end
};

class ReindexNode : public ViewNode {
 public:
  ReindexNode(NodePtr child, AffineMap map)
      : ViewNode({child->type().dtype, map.dims}), child_(std::move(child)), map_(std::move(map)) {}

  // Reads in the order of the child, in runs as long as the map allows.
  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    int64_t first = map_.offset;
    Walk walk;
    for (size_t i = 0; i < map_.dims.size(); ++i) {
      first += region.begin[i] * map_.strides[i];
      walk.push_back({region.size[i], map_.strides[i], to.steps[i]});
    }
    walk = in_source_order(std::move(walk));
    WalkAxis inner{};
    if (!walk.empty() && walk.back().from == 1) inner = walk.back(), walk.pop_back();
    return for_each_offset(walk, walk.size(), [&](int64_t from, int64_t at) {
      return read_extent(first + from, inner, to.data + at, context);
    });
  }

  std::optional<StoredNumbers> numbers() const override {
    auto numbers = is_contiguous(map_) ? child_->numbers() : std::nullopt;
    if (numbers) numbers->skip(map_.offset);
    return numbers;
  }

  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    return child_->scratch_bytes(elements, options);
  }

  bool reorders() const override { return !is_contiguous(map_) || child_->reorders(); }

  NodePtr in_c_order() const override {
    if (!is_contiguous(map_) || type().elements() != child_->type().elements()) return nullptr;
    // The map is contiguous and complete, so this node and the child have the same elements in C
    // order.
    NodePtr further = child_->in_c_order();
    return further ? further : child_;
  }

  NodePtr slice(const SliceStep& step) const override {
    return reindex_node(child_, sliced(map_, step));
  }
  NodePtr permute(const PermuteStep& step) const override {
    return reindex_node(child_, permuted(map_, step));
  }
  NodePtr reshape(const Dims& dims) const override {
    auto map = reshaped(map_, dims);
    return map ? reindex_node(child_, std::move(*map)) : nullptr;
  }

 private:
  Status read_extent(int64_t begin, const WalkAxis& along, std::byte* to,
                     ReadContext& context) const {
    // The steps of a destination for the whole child, with `along.to` bytes per element. Only the
    // elements of this run are written.
    const Dims steps = row_major_steps(child_->type().dims, along.to);
    Region region;
    const int64_t end = begin + along.extent;
    for (int64_t at = begin; at < end;) {
      const int64_t next = first_region(child_->type().dims, at, end, region);
      MOEC_TRY(child_->read(region, {to + (at - begin) * along.to, steps}, context));
      at = next;
    }
    return {};
  }

  NodePtr child_;
  AffineMap map_;
};

}  // namespace

NodePtr concat_node(std::vector<NodePtr> parts, size_t axis) {
  if (parts.size() == 1) return parts.front();
  Type type = parts.front()->type();
  type.dims[axis] = 0;
  for (const NodePtr& part : parts) type.dims[axis] += part->type().dims[axis];
  return std::make_shared<ConcatNode>(std::move(type), std::move(parts), axis);
}

NodePtr reindex_node(NodePtr child, AffineMap map) {
  return std::make_shared<ReindexNode>(std::move(child), std::move(map));
}

}  // namespace moec
