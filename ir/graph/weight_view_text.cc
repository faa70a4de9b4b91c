// The text of a weight view. This file is not in ir/text, because op hashes include the text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/spelling.h"
#include "ir/graph/ops.h"
#include "ir/graph/weight_view.h"

namespace moec {
namespace {

std::string print_tensor_name(const std::string& name) {
  // A name with other characters is quoted, so that every name can be parsed again.
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), is_tensor_char);
  return "@" + (plain ? name : quoted(name));
}

std::string print_source(const TensorSource& source, const Type& type) {
  return fmt::format("{}:{}", print_tensor_name(source.name), to_string(type));
}
std::string print_source(const SplatSource& source, const Type& type) {
  // fmt prints the shortest text that round-trips, so parsing returns the same double.
  return fmt::format("splat({}):{}", source.value, to_string(type));
}
std::string print_source(const SeededSource& source, const Type& type) {
  return fmt::format("seeded({}):{}", source.seed, to_string(type));
}
std::string print_source(const ConcatSource& source, const Type&) {
  std::string text = fmt::format("concat({};", source.axis);
  for (size_t i = 0; i < source.parts.size(); ++i)
    text += (i ? ", " : " ") + to_string(source.parts[i]);
  return text + ")";
}

std::string print_step(const SliceStep& step) {
  return fmt::format("slice({}, {}, {})", step.axis, step.begin, step.size);
}
std::string print_step(const ReshapeStep& step) {
  return fmt::format("reshape({})", fmt::join(step.dims, ", "));
}
std::string print_step(const PermuteStep& step) {
  return fmt::format("permute({})", fmt::join(step.axes, ", "));
}
std::string print_step(const CastStep& step) {
  return fmt::format("cast({})", dtype_name(step.dtype));
}
std::string print_step(const ScaleStep& step) { return fmt::format("scale({})", step.factor); }
std::string print_blocks(std::string_view name, const Dims& block, const ViewStep& step) {
  std::string text = fmt::format("{}({};", name, fmt::join(block, ", "));
  std::string_view before = " ";
  for (const WeightView* parameter : parameters_of(step)) {
    text += before;
    text += to_string(*parameter);
    before = ", ";
  }
  return text + ")";
}
std::string print_step(const DequantStep& step) {
  return print_blocks("dequant", step.block, step);
}
std::string print_step(const LutStep& step) { return print_blocks("lut", step.block, step); }
std::string print_step(const BlockwiseStep& step) {
  return print_blocks(enum_name(step.op), step.block, step);
}
std::string print_step(const GatherStep& step) { return print_blocks("gather", {step.axis}, step); }
std::string print_step(const UnpackStep& step) {
  return fmt::format("unpack({})", enum_name(step.packing));
}
std::string print_step(const UnblockStep& step) {
  if (step.part == UnblockPart::values) return fmt::format("unblock({})", enum_name(step.type));
  return fmt::format("unblock({}, {})", enum_name(step.type), enum_name(step.part));
}
std::string print_step(const CenterStep&) { return "center()"; }
std::string print_step(const MapStep& step) {
  return fmt::format("map({})", enum_name(step.function));
}
std::string print_step(const RemainderStep& step) {
  return fmt::format("remainder({})", dtype_name(step.dtype));
}

}  // namespace

std::string to_string(const WeightView& view) {
  std::string text = std::visit(
      [&](const auto& source) { return print_source(source, view.source_type); }, view.source);
  for (const ViewStep& step : view.steps)
    text += " | " + std::visit([](const auto& one) { return print_step(one); }, step);
  return text;
}

}  // namespace moec
