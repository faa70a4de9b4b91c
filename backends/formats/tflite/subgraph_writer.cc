#include "backends/formats/tflite/subgraph_writer.h"

#include "backends/emit/graph_metadata.h"
#include "backends/emit/metadata_keys.h"
#include "backends/formats/tflite/shard_writer.h"

namespace moec {

void add_shard(const Shard& shard, const DataLayout& layout, const std::string& function,
               const std::optional<MoeLayers>& moe_layers, ModelWriter& model) {
  Subgraph subgraph(model);
  ShardWriter writer(shard, layout, subgraph);
  for (const ValueId input : shard.inputs)
    subgraph.add_input(shard.values[input].name, writer.tensor_of(input));
  writer.write_ops();
  for (const Output& output : shard.outputs)
    subgraph.add_output(output.name, writer.output_tensor(output));
  subgraph.finish(function);
  const TensorName name = [&](ValueId value) { return writer.names().of(value); };
  // Readers may name the unnamed result of an op by its path: the name of its tensor stays the
  // same.
  const auto label = [&](ValueId value) {
    const bool free = shard.values[value].name.empty() && !is_source(shard, value);
    return free ? shard.label(value) : label_of_tensor(shard.name, name(value));
  };
  model.add_metadata(metadata_key(kShardEntry, function), shard.name);
  model.add_metadata(metadata_key(kLayoutsEntry, function), layout_lines(shard, name));
  model.add_metadata(metadata_key(kNamesEntry, function), label_lines(shard, name, label));
  if (moe_layers)
    model.add_metadata(metadata_key(kWeightsEntry, function),
                       to_text(owners_of(shard, *moe_layers, name)));
}

}  // namespace moec
