// A weight view compiled for reading: a tree whose leaves are tensors, splats and seeds. Slices,
// permutes and reshapes move down into the leaves and become index arithmetic there, so that the
// leaf that reads a file knows exactly which elements are needed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/weights/views/coded_rows.h"
#include "backends/weights/views/payload_file.h"
#include "backends/weights/views/strided.h"
#include "backends/weights/views/view_series.h"
#include "backends/weights/views/weight_pager.h"
#include "ir/graph/weight_table.h"

namespace moec {

// Allocates the buffers of one stream and counts the bytes held.

class Scratch {
 public:
  // Uninitialised bytes, freed by the destructor.
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

  // Returns an aligned buffer for direct I/O. The buffer is kept after its first use, because
  // direct reads come in series.
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

// Elements with begin[i] ≤ index[i] < begin[i] + size[i].
struct Region {
  Dims begin, size;
};
int64_t elements_of(const Region& region);
Region whole_region(const Dims& dims);

// Destination of a region: the first element goes to `data`, and neighbours along axis i are
// `steps[i]` bytes apart.
struct Destination {
  std::byte* data = nullptr;
  Dims steps;
};

// State of one stream.
struct ReadContext {
  const std::vector<PayloadFile>& files;
  const ReaderOptions& options;
  StreamReport& report;
  Scratch scratch;
  std::vector<bool> checked;        // per file: already checked for changes in this stream
  const HeldBytes* held = nullptr;  // if set, reads use these bytes, not the file
};

class ViewNode;
using NodePtr = std::shared_ptr<const ViewNode>;

class ViewNode {
 public:
  explicit ViewNode(Type type) : type_(std::move(type)) {}
  virtual ~ViewNode() = default;

  const Type& type() const { return type_; }
  size_t width() const { return static_cast<size_t>(dtype_bytes(type_.dtype)); }

  // Writes a region of the node, in the node's element type. The region must come from
  // first_region(), or be the intersection of such a region with a child.
  virtual Status read(const Region& region, const Destination& to, ReadContext& context) const = 0;
  // Writes the region in C order, without gaps.
  Status read_packed(const Region& region, std::byte* to, ReadContext& context) const;
  // As read_packed(), but avoids a copy if possible: returns the elements in the bounce buffer of
  // the context, valid until its next use. Returns null if the elements are not contiguous in a
  // file, or are too many or too few; the caller must then use read_packed().
  virtual Result<const std::byte*> lend(const Region&, ReadContext&) const { return nullptr; }
  // Returns the location of the elements if all of them are contiguous in a file, in C order;
  // absent otherwise.
  virtual std::optional<FileExtent> extent() const { return std::nullopt; }
  // Returns the elements in C order as consecutive numbers of a file or as one constant; absent if
  // they are stored in another way.
  virtual std::optional<StoredNumbers> numbers() const { return std::nullopt; }
  // Returns the node as rows of codes with scales or tables; absent if it is stored in another way.
  virtual std::optional<CodedRows> coded() const { return std::nullopt; }
  // Returns the maximum scratch bytes of read() for a region of `elements` elements.
  virtual uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const = 0;
  // Returns true if reading in C order seeks back and forth in a file.
  virtual bool reorders() const = 0;
  // Returns an equivalent node that is faster to read in C order; null if there is none.
  virtual NodePtr in_c_order() const { return nullptr; }

  // Return the node with one more index step, which must be valid for type().
  virtual NodePtr slice(const SliceStep& step) const = 0;
  virtual NodePtr permute(const PermuteStep& step) const = 0;
  // Returns null if the node cannot express it; use reshape_node() then.
  virtual NodePtr reshape(const Dims& dims) const = 0;

 private:
  Type type_;
};

NodePtr tensor_node(const TensorRange& range);
NodePtr splat_node(double value, const Type& type);
NodePtr seeded_node(uint64_t seed, const Type& type);
NodePtr concat_node(std::vector<NodePtr> parts, size_t axis);
// Multiplies `child` by `factor`, if present, and rounds it to `dtype`.
NodePtr convert_node(NodePtr child, std::optional<double> factor, DType dtype);
// (element − offset) × scale in f32, with the parameters of the element's block; `offset` may be
// null.
NodePtr dequant_node(NodePtr child, NodePtr scale, NodePtr offset, const Dims& block);
// Replaces each element of `child` by the entry of its block's table at that index.
NodePtr lut_node(NodePtr child, NodePtr table, const Dims& block);
// Adds the operand of its block to each element of `child`, or divides the element by it, in f32.
NodePtr blockwise_node(NodePtr child, BlockwiseOp op, NodePtr operand, const Dims& block);
// Selects the elements of `child` along `axis` at these indices. Reading fails for an index outside
// the axis.
NodePtr gather_node(NodePtr child, size_t axis, NodePtr indices);
// Rounding errors of the child's elements in `dtype`, as f32.
NodePtr remainder_node(NodePtr child, DType dtype);
// A function of the child's elements, as f32.
NodePtr map_node(NodePtr child, MapFn function);
// Elements of `child` minus the median of the finite elements of `whole`, in f32.
NodePtr center_node(NodePtr child, NodePtr whole);
// Numbers packed into the child's elements, along its last axis.
NodePtr unpack_node(NodePtr child, Packing packing);
// Decodes the blocks in the child's bytes, along its last axis.
NodePtr unblock_node(NodePtr child, const UnblockStep& step);
// Selects elements with `map` from the child's elements in C order.
NodePtr reindex_node(NodePtr child, AffineMap map);

// Returns reshape() if the node can express it, else a reindex_node.
NodePtr reshape_node(const NodePtr& node, const Dims& dims);

// Axes [old_begin, old_end) of one shape that contain the same elements as axes [new_begin,
// new_end) of another shape: the products of their sizes are equal. Groups are as small as
// possible.
struct AxisGroup {
  size_t old_begin = 0, old_end = 0, new_begin = 0, new_end = 0;
};
// The two shapes must have the same number of elements.
std::vector<AxisGroup> axis_groups(const Dims& old_dims, const Dims& new_dims);

// Compiles a view to its tree. Errors: those of WeightReader::cost().
Result<NodePtr> compile_view(const WeightView& view, const WeightTable& table);

// Sets `region` to the largest region that starts at C-order position `begin` and ends at or before
// `end`. Returns the end of the region, so that a loop can divide a range into regions.
int64_t first_region(const Dims& dims, int64_t begin, int64_t end, Region& region);

// Returns the walk from row-major elements of the region, `unit` bytes each, to the destination.
Walk scatter_walk(const Region& region, int64_t unit, const Destination& to);
bool is_row_major(const Region& region, int64_t unit, const Destination& to);

}  // namespace moec
