#include "backends/emit/graph_names.h"

#include <algorithm>

namespace moec {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Also true for a space, because spaces separate the words of a metadata line.
bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
}

// The checkpoint tensor that the view covers completely, possibly cast or rearranged; null if there
// is none. Packed tensors and inputs of a computation do not qualify: their elements are not those
// of the view.
const std::string* whole_tensor(const WeightView& view) {
  const auto* tensor = std::get_if<TensorSource>(&view.source);
  const bool part = std::any_of(view.steps.begin(), view.steps.end(), [](const ViewStep& step) {
    return std::holds_alternative<SliceStep>(step) || std::holds_alternative<UnpackStep>(step) ||
           std::holds_alternative<CenterStep>(step) ||
           std::holds_alternative<RemainderStep>(step) ||
           std::holds_alternative<BlockwiseStep>(step) || std::holds_alternative<GatherStep>(step);
  });
  return tensor && !part ? &tensor->name : nullptr;
}

}  // namespace

std::string netron_path(std::string_view dotted) {
  std::string path(dotted);
  for (size_t i = 0; i + 1 < path.size(); ++i)
    if (path[i] == '.' && !is_digit(path[i + 1])) path[i] = '/';
  return path;
}

// Inputs and outputs come first, because runtimes bind them by name. Other names avoid them.
GraphNames::GraphNames(const Shard& shard)
    : shard_(shard), shard_path_(netron_path(shard.name)), tensors_(shard.values.size()) {
  for (ValueId input : shard.inputs) tensors_[input] = fresh(shard.values[input].name);
  name_outputs();
  name_others();
}

// The order of the values is fixed, so the suffixes are deterministic.
std::string GraphNames::claim(NameSet& taken, const std::string& wanted) {
  std::string name = wanted;
  for (int suffix = 2; !taken.insert(name).second; ++suffix)
    name = wanted + "_" + std::to_string(suffix);
  return name;
}

// A tensor has one name. An output becomes a copy if its value already has a name or is a source.
void GraphNames::name_outputs() {
  for (const Output& output : shard_.outputs) {
    std::string& name = tensors_[output.value];
    if (name == output.name) continue;  // an input returned under its own name
    const bool free = name.empty() && !is_source(shard_, output.value);
    tensor_names_.insert(output.name);
    if (free)
      name = output.name;
    else
      copies_.push_back(output);
  }
}

void GraphNames::name_others() {
  for (OpId op : op_ids(shard_))
    for (ValueId value : shard_.ops[op].results)
      if (tensors_[value].empty()) tensors_[value] = fresh(wanted_name(value));
}

std::string GraphNames::wanted_name(ValueId value) const {
  if (const auto* weight = shard_.producer_as<Weight>(value))
    if (const std::string* tensor = whole_tensor(weight->view);
        tensor && !tensor->empty() && !has_control(*tensor))
      return *tensor;
  return shard_.label(value);
}

std::string GraphNames::node(OpId op) {
  const Op& data = shard_.ops[op];
  const Value& first = shard_.values[data.results.front()];
  if (!first.name.empty()) return fresh_node(netron_path(first.name));
  return fresh_node(std::string(mnemonic(data.data)) + "_" +
                    std::to_string(data.results.front().index));
}

std::string GraphNames::fresh_node(std::string_view last) {
  return claim(node_names_, shard_path_ + "/" + std::string(last));
}

}  // namespace moec
