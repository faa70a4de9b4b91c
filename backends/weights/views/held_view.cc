#include "backends/weights/views/held_view.h"

#include "backends/weights/views/convert.h"
#include "backends/weights/views/view_node.h"

namespace moec {

HeldView::HeldView(std::shared_ptr<const ViewNode> node)
    : node_(std::move(node)), rows_(node_->coded()) {}

Result<HeldView> HeldView::compile(const WeightView& view, const WeightTable& table) {
  MOEC_ASSIGN(NodePtr node, compile_view(view, table));
  return HeldView(std::move(node));
}

const Type& HeldView::type() const { return node_->type(); }

const std::byte* HeldView::data(const HeldBytes& held) const {
  const DType dtype = type().dtype;
  const bool is_float = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  const auto extent = is_float ? node_->extent() : std::nullopt;
  return extent ? held.find(extent->offset, static_cast<uint64_t>(type().bytes())) : nullptr;
}

Status HeldView::widen(const HeldBytes& held, int64_t begin, int64_t count, float* to) const {
  const DType dtype = type().dtype;
  if (const std::byte* stored = data(held)) {
    decode(dtype, stored + begin * dtype_bytes(dtype), static_cast<size_t>(count), to);
    return {};
  }
  if (rows_ && decode_rows(*rows_, held, begin, count, to)) return {};
  // Nodes read from `held`, so no file is needed.
  const std::vector<PayloadFile> none;
  const ReaderOptions options;
  StreamReport report;
  ReadContext context{none, options, report, {}, {}, &held};
  // f32 elements are read directly into `to`.
  auto raw =
      context.scratch.take(dtype == DType::f32 ? 0 : static_cast<size_t>(count) * node_->width());
  for (int64_t at = begin, end = begin + count; at < end;) {
    Region region;
    const int64_t next = first_region(type().dims, at, end, region);
    float* values = to + (at - begin);
    std::byte* packed = dtype == DType::f32 ? reinterpret_cast<std::byte*>(values) : raw.data();
    MOEC_TRY(node_->read_packed(region, packed, context));
    if (dtype != DType::f32) decode(dtype, packed, static_cast<size_t>(next - at), values);
    at = next;
  }
  return {};
}

}  // namespace moec
