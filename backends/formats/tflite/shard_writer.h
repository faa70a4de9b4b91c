// Writes the ops of a shard into a TFLite subgraph. subgraph_writer.h lists the mapping.
#pragma once

#include <functional>
#include <map>

#include "backends/emit/data_layout.h"
#include "backends/formats/tflite/path_names.h"
#include "backends/formats/tflite/subgraph.h"
#include "ir/graph/shard.h"

namespace moec {

class ShardWriter {
 public:
  // The shard must have passed check_tflite(), and `layout` must contain its weights.
  ShardWriter(const Shard& shard, const DataLayout& layout, Subgraph& subgraph)
      : shard_(shard),
        layout_(layout),
        subgraph_(subgraph),
        names_(shard),
        tensors_of_(shard.values.size(), kNoTensor) {}

  const PathNames& names() const { return names_; }

  // Uses an existing tensor as the value.
  void bind(ValueId value, int32_t tensor) { tensors_of_[value] = tensor; }
  // Writes the ops that outputs need. An op with an entry in `replaced` is not written: at its
  // place, the entry returns the tensor of its result.
  using Replaced = std::map<OpId, std::function<int32_t()>>;
  void write_ops(const Replaced& replaced = {});
  // Returns the tensor of a value, which is added on the first use.
  int32_t tensor_of(ValueId value);
  // Returns the tensor of an output, which is a copy of the value's if PathNames lists it.
  int32_t output_tensor(const Output& output);

 private:
  int32_t weight(const Weight& op, ValueId value);
  int32_t zeros(ValueId conv);

  void write_op(const Op& op);
  void write_conv(const Op& op, const Conv& conv);
  void write_topk(const Op& op, const TopK& topk);
  int32_t channels_last(ValueId value);
  flatbuffers::FlatBufferBuilder& builder() { return subgraph_.parts().builder; }

  const Shard& shard_;
  const DataLayout& layout_;
  Subgraph& subgraph_;
  const PathNames names_;
  IdMap<ValueId, int32_t> tensors_of_;
  std::map<ValueId, int32_t> channels_last_;
};

}  // namespace moec
