#include <fmt/format.h>

#include "backends/weights/views/view_node.h"

namespace moec {
namespace {

Result<NodePtr> compile(const WeightView& view, const WeightTable& table);

Status check_range(const TensorRange& range, const std::string& name, const WeightTable& table) {
  const Place place{.tensor = name};
  if (range.file >= table.files.size())
    return fail("weights.out_of_range", fmt::format("no file has index {}", range.file), {}, place);
  const WeightFile& file = table.files[range.file];
  const auto bytes = static_cast<uint64_t>(range.type.bytes());
  // Written as a difference: the sum of offset and bytes could wrap around for a crafted header.
  if (range.offset > file.bytes || bytes > file.bytes - range.offset)
    return fail("weights.out_of_range",
                fmt::format("{} bytes at offset {} exceed the file's {} bytes", bytes, range.offset,
                            file.bytes),
                "download the checkpoint again", {.tensor = name, .file = file.path});
  return {};
}

struct CompileSource {
  const Type& type;
  const WeightTable& table;

  Result<NodePtr> operator()(const TensorSource& source) const {
    const TensorRange* range = table.find(source.name);
    if (!range)
      return fail("weights.unknown_tensor", "the checkpoint has no tensor of this name",
                  "check that all files of the checkpoint are present", {.tensor = source.name});
    // A different type means that the view was built from other metadata than `table`.
    if (range->type != type)
      return fail("weights.type_mismatch",
                  fmt::format("the view expects {}, the checkpoint has {}", to_string(type),
                              to_string(range->type)),
                  "build the view from the checkpoint's types", {.tensor = source.name});
    MOEC_TRY(check_range(*range, source.name, table));
    return tensor_node(*range);
  }
  Result<NodePtr> operator()(const SplatSource& source) const {
    return splat_node(source.value, type);
  }
  Result<NodePtr> operator()(const SeededSource& source) const {
    return seeded_node(source.seed, type);
  }
  Result<NodePtr> operator()(const ConcatSource& source) const {
    std::vector<NodePtr> parts;
    for (const WeightView& view : source.parts) {
      MOEC_ASSIGN(NodePtr part, compile(view, table));
      parts.push_back(std::move(part));
    }
    return concat_node(std::move(parts), static_cast<size_t>(source.axis));
  }
};

struct CompileStep {
  const NodePtr& node;
  const WeightTable& table;

  Result<NodePtr> operator()(const SliceStep& step) const { return node->slice(step); }
  Result<NodePtr> operator()(const ReshapeStep& step) const {
    return reshape_node(node, step.dims);
  }
  Result<NodePtr> operator()(const PermuteStep& step) const { return node->permute(step); }
  Result<NodePtr> operator()(const CastStep& step) const {
    return convert_node(node, std::nullopt, step.dtype);
  }
  Result<NodePtr> operator()(const ScaleStep& step) const {
    return convert_node(node, step.factor, node->type().dtype);
  }
  Result<NodePtr> operator()(const DequantStep& step) const {
    MOEC_ASSIGN(NodePtr scale, compile(step.scale.front(), table));
    NodePtr offset;
    if (!step.offset.empty()) {
      MOEC_ASSIGN(offset, compile(step.offset.front(), table));
    }
    return dequant_node(node, std::move(scale), std::move(offset), step.block);
  }
  Result<NodePtr> operator()(const LutStep& step) const {
    MOEC_ASSIGN(NodePtr entries, compile(step.table.front(), table));
    return lut_node(node, std::move(entries), step.block);
  }
  Result<NodePtr> operator()(const BlockwiseStep& step) const {
    MOEC_ASSIGN(NodePtr operand, compile(step.operand.front(), table));
    return blockwise_node(node, step.op, std::move(operand), step.block);
  }
  Result<NodePtr> operator()(const GatherStep& step) const {
    MOEC_ASSIGN(NodePtr indices, compile(step.indices.front(), table));
    return gather_node(node, static_cast<size_t>(step.axis), std::move(indices));
  }
  Result<NodePtr> operator()(const UnpackStep& step) const {
    return unpack_node(node, step.packing);
  }
  Result<NodePtr> operator()(const UnblockStep& step) const { return unblock_node(node, step); }
  // `node` is both the child and the whole view. Later slices apply to the child only.
  Result<NodePtr> operator()(const CenterStep&) const { return center_node(node, node); }
  Result<NodePtr> operator()(const MapStep& step) const { return map_node(node, step.function); }
  Result<NodePtr> operator()(const RemainderStep& step) const {
    return remainder_node(node, step.dtype);
  }
};

Result<NodePtr> compile(const WeightView& view, const WeightTable& table) {
  MOEC_ASSIGN(NodePtr node, std::visit(CompileSource{view.source_type, table}, view.source));
  for (const ViewStep& step : view.steps) {
    MOEC_ASSIGN(NodePtr next, std::visit(CompileStep{node, table}, step));
    node = std::move(next);
  }
  return node;
}

}  // namespace

Result<NodePtr> compile_view(const WeightView& view, const WeightTable& table) {
  // Nodes assume valid steps; view_type() checks all of them first.
  MOEC_TRY(view_type(view));
  return compile(view, table);
}

}  // namespace moec
