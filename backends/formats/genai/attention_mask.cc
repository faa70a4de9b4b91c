#include "backends/formats/genai/attention_mask.h"

namespace moec {

void add_attention_mask(GraphNodes& nodes, const InputBinding& binding,
                        const MaskPositions& positions, const std::string& name,
                        const std::pair<DType, double>& masked_value) {
  const std::string& keys = positions.keys;
  const std::string& queries = positions.queries;
  std::string hidden = nodes.add("Greater", {keys, queries}, name + "/later");
  const auto hide = [&](const std::string& more, const std::string& what) {
    hidden = nodes.add("Or", {hidden, more}, name + "/hidden_" + what);
  };
  const auto hide_below = [&](const std::string& least, const std::string& what) {
    hide(nodes.add("Less", {keys, least}, name + "/" + what), what);
  };
  if (!positions.closed.empty()) hide(positions.closed, "closed");
  if (binding.window > 0)
    hide_below(nodes.add("Sub", {queries, nodes.integer(binding.window - 1)}, name + "/first"),
               "before");
  if (binding.chunk > 0) {
    const std::string size = nodes.integer(binding.chunk);
    const std::string chunk = nodes.add("Div", {queries, size}, name + "/chunk");
    hide_below(nodes.add("Mul", {chunk, size}, name + "/chunk_first"), "chunks");
  }
  const auto& [dtype, masked] = masked_value;
  const std::string added = nodes.add(
      "Where", {hidden, nodes.number(dtype, masked), nodes.number(dtype, 0)}, name + "/added");
  nodes.add("Unsqueeze", {added, nodes.integers({0, 1})}, name);
}

}  // namespace moec
