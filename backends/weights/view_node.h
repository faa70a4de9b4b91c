// A weight view made ready to read: a tree whose leaves are tensors, splats and seeds. Slices,
// permutes and reshapes have been moved down into the leaves as index arithmetic, so that what is
// read from a file is decided where the file is read.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/weights/affine_map.h"
#include "backends/weights/payload_file.h"
#include "backends/weights/scratch.h"
#include "backends/weights/strided.h"
#include "backends/weights/weight_reader.h"

namespace moec {

// The elements with begin[i] ≤ index[i] < begin[i] + size[i].
struct Region {
  Dims begin, size;
};
int64_t elements_of(const Region& region);
Region whole_region(const Dims& dims);

// Where the elements of a region go: the first one to `data`, neighbours along axis i `steps[i]`
// bytes apart.
struct Destination {
  std::byte* data = nullptr;
  Dims steps;
};

// What one stream carries along.
struct ReadContext {
  const std::vector<PayloadFile>& files;
  const ReaderOptions& options;
  StreamReport& report;
  Scratch scratch;
  std::vector<bool> checked;  // files found unchanged in this stream
};

class ViewNode;
using NodePtr = std::shared_ptr<const ViewNode>;

class ViewNode {
 public:
  explicit ViewNode(Type type) : type_(std::move(type)) {}
  virtual ~ViewNode() = default;

  const Type& type() const { return type_; }
  size_t width() const { return static_cast<size_t>(dtype_bytes(type_.dtype)); }

  // Delivers a region of the node, in the node's element type.
  virtual Status read(const Region& region, const Destination& to, ReadContext& context) const = 0;
  // The same in C order, without gaps.
  Status read_packed(const Region& region, std::byte* to, ReadContext& context) const;
  // The same without a copy: in the bounce buffer of the context, until its next use. Null where
  // the elements do not lie side by side in a file, or are too many; read_packed() has them all.
  virtual Result<const std::byte*> lend(const Region&, ReadContext&) const { return nullptr; }
  // The most scratch that read() takes for a region of `elements` elements.
  virtual uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const = 0;
  // Whether reading in C order jumps about in a file.
  virtual bool reorders() const = 0;
  // A node whose C order is this one's too and that reads better in it; null where there is none.
  virtual NodePtr in_c_order() const { return nullptr; }

  // The node with one more index step. The step is well-formed for type().
  virtual NodePtr slice(const SliceStep& step) const = 0;
  virtual NodePtr permute(const PermuteStep& step) const = 0;
  // Null where the node has no way of its own; see reshape_node().
  virtual NodePtr reshape(const Dims& dims) const = 0;

 private:
  Type type_;
};

NodePtr tensor_node(const TensorRange& range);
NodePtr splat_node(double value, const Type& type);
NodePtr seeded_node(uint64_t seed, const Type& type);
NodePtr concat_node(std::vector<NodePtr> parts, size_t axis);
// Rounded to `dtype`, after a multiplication if there is a factor.
NodePtr convert_node(NodePtr child, std::optional<double> factor, DType dtype);
// Element i of axis a uses scale (i + phase[a]) / block[a].
NodePtr dequant_node(NodePtr child, NodePtr scale, Dims block, Dims phase);
// The numbers that the child's elements hold, along its last axis.
NodePtr unpack_node(NodePtr child, Packing packing);
// `map` picks from the child's elements in C order.
NodePtr reindex_node(NodePtr child, AffineMap map);

// reshape() where the node has one, else by reindexing.
NodePtr reshape_node(const NodePtr& node, const Dims& dims);

// Axes of one shape that hold the elements of axes of another: [old_begin, old_end) and
// [new_begin, new_end), with equal products; as few as can be.
struct AxisGroup {
  size_t old_begin = 0, old_end = 0, new_begin = 0, new_end = 0;
};
// The shapes have equally many elements.
std::vector<AxisGroup> axis_groups(const Dims& old_dims, const Dims& new_dims);

// The tree for a view. Errors as WeightReader::cost().
Result<NodePtr> compile_view(const WeightView& view, const WeightTable& table);

// Cuts the stretch [begin, end) of C-order positions into regions: visits the first one, which
// takes as much of the stretch as a region can, and returns where it ends.
int64_t first_region(const Dims& dims, int64_t begin, int64_t end, Region& region);

// The walk from row-major elements of the region, `unit` bytes each, to the destination.
Walk scatter_walk(const Region& region, int64_t unit, const Destination& to);
bool is_row_major(const Region& region, int64_t unit, const Destination& to);

}  // namespace moec
