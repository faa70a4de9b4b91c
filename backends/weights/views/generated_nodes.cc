// The leaves that read no file: splats and seeded elements.
#include "backends/weights/views/convert.h"
#include "backends/weights/views/view_node.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

class SplatNode : public ViewNode {
 public:
  SplatNode(float value, Type type) : ViewNode(std::move(type)), value_(value) {}

  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    std::byte element[sizeof(float)];
    const auto count = static_cast<uint64_t>(elements_of(region));
    context.report.overflows += encode(type().dtype, &value_, 1, element) * count;
    Walk walk = scatter_walk(region, 0, to);
    for (WalkAxis& axis : walk) axis.from = 0;
    copy_strided(element, to.data, walk, width());
    return {};
  }

  uint64_t scratch_bytes(uint64_t, const ReaderOptions&) const override { return 0; }
  bool reorders() const override { return false; }

  NodePtr slice(const SliceStep& step) const override {
    return reshape(sliced(whole(type().dims), step).dims);
  }
  NodePtr permute(const PermuteStep& step) const override {
    return reshape(permuted(whole(type().dims), step).dims);
  }
  NodePtr reshape(const Dims& dims) const override {
    return std::make_shared<SplatNode>(value_, Type{type().dtype, dims});
  }

 private:
  float value_;
};

class SeededNode : public ViewNode {
 public:
  SeededNode(uint64_t seed, DType dtype, AffineMap map)
      : ViewNode({dtype, map.dims}), seed_(seed), map_(std::move(map)) {}

  Status read(const Region& region, const Destination& to, ReadContext&) const override {
    int64_t first = map_.offset;
    Walk walk;
    for (size_t i = 0; i < map_.dims.size(); ++i) {
      first += region.begin[i] * map_.strides[i];
      walk.push_back({region.size[i], map_.strides[i], to.steps[i]});
    }
    return for_each_offset(walk, walk.size(), [&](int64_t from, int64_t at) -> Status {
      const float value = seeded_element(seed_, static_cast<uint64_t>(first + from));
      encode(type().dtype, &value, 1, to.data + at);
      return {};
    });
  }

  uint64_t scratch_bytes(uint64_t, const ReaderOptions&) const override { return 0; }
  bool reorders() const override { return false; }

  NodePtr slice(const SliceStep& step) const override { return with(sliced(map_, step)); }
  NodePtr permute(const PermuteStep& step) const override { return with(permuted(map_, step)); }
  NodePtr reshape(const Dims& dims) const override {
    auto map = reshaped(map_, dims);
    return map ? with(std::move(*map)) : nullptr;
  }

 private:
  NodePtr with(AffineMap map) const {
    return std::make_shared<SeededNode>(seed_, type().dtype, std::move(map));
  }

  uint64_t seed_;
  AffineMap map_;
};

}  // namespace

NodePtr splat_node(double value, const Type& type) {
  return std::make_shared<SplatNode>(static_cast<float>(value), type);
}

NodePtr seeded_node(uint64_t seed, const Type& type) {
  return std::make_shared<SeededNode>(seed, type.dtype, whole(type.dims));
}

}  // namespace moec
