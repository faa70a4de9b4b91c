// A weight view compiled for reading: a tree whose leaves are tensors, splats and seeds. Slices,
// permutes and reshapes are moved down into the leaves and become index arithmetic there, so that
// the leaf that reads a file knows exactly which elements are wanted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/weights/views/payload_file.h"
#include "backends/weights/views/strided.h"
#include "backends/weights/views/view_series.h"
#include "backends/weights/views/weight_pager.h"
#include "ir/graph/weight_table.h"

namespace moec {

// The buffers of one stream. Counts how many bytes are held.

class Scratch {
 public:
  // Uninitialised bytes, freed when it goes out of scope.
  class Buffer {
   public:
    Buffer(Scratch& owner, size_t bytes)
        : owner_(owner), bytes_(bytes), data_(new std::byte[std::max<size_t>(bytes, 1)]) {
      owner_.held_ += bytes;
      owner_.peak_ = std::max(owner_.peak_, owner_.held_);
    }
    ~Buffer() { owner_.held_ -= bytes_; }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::byte* data() { return data_.get(); }
    float* floats() { return reinterpret_cast<float*>(data_.get()); }

   private:
    Scratch& owner_;
    size_t bytes_;
    std::unique_ptr<std::byte[]> data_;
  };

  Buffer take(size_t bytes) { return Buffer(*this, bytes); }

  // The aligned buffer for reads that bypass the page cache. It is kept after the first use, since
  // such reads come in series.
  std::byte* bounce() {
    if (!bounce_) bounce_.emplace(*this, kBounceBytes);
    void* data = bounce_->data();
    size_t room = kBounceBytes;
    return static_cast<std::byte*>(
        std::align(PayloadFile::kBlockBytes, PayloadFile::kBounceBytes, data, room));
  }
  static constexpr uint64_t kBounceBytes = PayloadFile::kBounceBytes + PayloadFile::kBlockBytes;
  uint64_t peak() const { return peak_; }

 private:
  uint64_t held_ = 0, peak_ = 0;
  std::optional<Buffer> bounce_;
};

// The elements with begin[i] ≤ index[i] < begin[i] + size[i].
struct Region {
  Dims begin, size;
};
int64_t elements_of(const Region& region);
Region whole_region(const Dims& dims);

// Where the elements of a region are written: the first one at `data`, and neighbours along axis i
// `steps[i]` bytes apart.
struct Destination {
  std::byte* data = nullptr;
  Dims steps;
};

// The state of one stream.
struct ReadContext {
  const std::vector<PayloadFile>& files;
  const ReaderOptions& options;
  StreamReport& report;
  Scratch scratch;
  std::vector<bool> checked;        // by file: whether it was checked for changes in this stream
  const HeldBytes* held = nullptr;  // the bytes of the file, if they are read from memory
};

// Bytes of one file.
struct FileStretch {
  size_t file = 0;
  uint64_t offset = 0;
};

class ViewNode;
using NodePtr = std::shared_ptr<const ViewNode>;

class ViewNode {
 public:
  explicit ViewNode(Type type) : type_(std::move(type)) {}
  virtual ~ViewNode() = default;

  const Type& type() const { return type_; }
  size_t width() const { return static_cast<size_t>(dtype_bytes(type_.dtype)); }

  // Writes a region of the node, in the node's element type. The region is one that first_region()
  // gives, or the part of such a one that lies in a part of the node.
  virtual Status read(const Region& region, const Destination& to, ReadContext& context) const = 0;
  // Writes the region in C order, without gaps.
  Status read_packed(const Region& region, std::byte* to, ReadContext& context) const;
  // The same without a copy, where that is possible: the elements lie in the bounce buffer of the
  // context until its next use. Null if they do not lie side by side in a file, or are too many or
  // too few; then use read_packed().
  virtual Result<const std::byte*> lend(const Region&, ReadContext&) const { return nullptr; }
  // Where all elements of the node lie side by side in a file, in C order; nothing if they do not.
  virtual std::optional<FileStretch> stretch() const { return std::nullopt; }
  // The most scratch bytes that read() takes for a region of `elements` elements.
  virtual uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const = 0;
  // Whether reading in C order jumps back and forth in a file.
  virtual bool reorders() const = 0;
  // An equivalent node with the same C order that is faster to read in it; null if there is none.
  virtual NodePtr in_c_order() const { return nullptr; }

  // The node with one more index step, which must be valid for type().
  virtual NodePtr slice(const SliceStep& step) const = 0;
  virtual NodePtr permute(const PermuteStep& step) const = 0;
  // Null if the node cannot express it; use reshape_node().
  virtual NodePtr reshape(const Dims& dims) const = 0;

 private:
  Type type_;
};

NodePtr tensor_node(const TensorRange& range);
NodePtr splat_node(double value, const Type& type);
NodePtr seeded_node(uint64_t seed, const Type& type);
NodePtr concat_node(std::vector<NodePtr> parts, size_t axis);
// The child multiplied by the factor, if there is one, and rounded to `dtype`.
NodePtr convert_node(NodePtr child, std::optional<double> factor, DType dtype);
// (Element − offset) × scale in f32, of the element's block; the offset may be null.
NodePtr dequant_node(NodePtr child, NodePtr scale, NodePtr offset, const Dims& block);
// The entry that an element is the index of, in the table of its block.
NodePtr lut_node(NodePtr child, NodePtr table, const Dims& block);
// What rounding the child's elements to `dtype` loses, in f32.
NodePtr remainder_node(NodePtr child, DType dtype);
// The elements of `child` less the median of the finite elements of `whole`, in f32.
NodePtr center_node(NodePtr child, NodePtr whole);
// The numbers packed into the child's elements, along its last axis.
NodePtr unpack_node(NodePtr child, Packing packing);
// The elements of the blocks that the child's bytes are, along its last axis.
NodePtr unblock_node(NodePtr child, BlockType type);
// The elements that `map` picks from the child's, counted in C order.
NodePtr reindex_node(NodePtr child, AffineMap map);

// reshape() if the node can express it, else a reindex_node.
NodePtr reshape_node(const NodePtr& node, const Dims& dims);

// A run of axes of one shape that holds the same elements as a run of axes of another shape:
// [old_begin, old_end) and [new_begin, new_end), of equal products. The runs are as short as
// possible.
struct AxisGroup {
  size_t old_begin = 0, old_end = 0, new_begin = 0, new_end = 0;
};
// The two shapes have the same number of elements.
std::vector<AxisGroup> axis_groups(const Dims& old_dims, const Dims& new_dims);

// The tree for a view. Errors: those of WeightReader::cost().
Result<NodePtr> compile_view(const WeightView& view, const WeightTable& table);

// The first region of the C-order positions [begin, end): the largest one that begins at `begin`.
// Returns the position where it ends, so that calls in a loop cut the whole stretch into regions.
int64_t first_region(const Dims& dims, int64_t begin, int64_t end, Region& region);

// The walk from row-major elements of the region, `unit` bytes each, to the destination.
Walk scatter_walk(const Region& region, int64_t unit, const Destination& to);
bool is_row_major(const Region& region, int64_t unit, const Destination& to);

}  // namespace moec
