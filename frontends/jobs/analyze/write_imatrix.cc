#include "frontends/jobs/analyze/write_imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/formats/gguf/block_name.h"
#include "backends/formats/gguf/gguf_layout.h"
#include "ir/base/at.h"

namespace moec {
namespace {

struct ImatrixTensor {
  GgufTensorInfo info;
  std::vector<float> values;
};

std::vector<float> counts_of(const LayerProfile& layer) {
  return {layer.selections.begin(), layer.selections.end()};
}

// The rows of all experts, one after the other; those that no token chose are zero.
std::vector<float> joined(const std::vector<std::vector<float>>& rows, size_t columns) {
  std::vector<float> all;
  for (const std::vector<float>& row : rows) {
    all.insert(all.end(), row.begin(), row.end());
    if (row.empty()) all.insert(all.end(), columns, 0.0F);
  }
  return all;
}

void add_matrix(std::vector<ImatrixTensor>& tensors, const LayerProfile& layer,
                const std::string& matrix, const std::vector<std::vector<float>>& rows) {
  size_t columns = 0;
  for (const std::vector<float>& row : rows) columns = std::max(columns, row.size());
  const std::string name = block_name(layer.layer, matrix + ".weight");
  const auto experts = std::ssize(rows);
  tensors.push_back({{name + ".counts", BlockType::f32, {experts, 1}}, counts_of(layer)});
  tensors.push_back({{name + ".in_sum2", BlockType::f32, {experts, static_cast<int64_t>(columns)}},
                     joined(rows, columns)});
}

// In the order of their names, as llama-imatrix writes them.
std::vector<ImatrixTensor> tensors_of(const Analysis& analysis) {
  std::vector<ImatrixTensor> tensors;
  for (size_t i = 0; i < analysis.sums.size(); ++i) {
    const LayerProfile& layer = analysis.profile.layers[i];
    add_matrix(tensors, layer, "ffn_gate_exps", analysis.sums[i].input);
    add_matrix(tensors, layer, "ffn_up_exps", analysis.sums[i].input);
    add_matrix(tensors, layer, "ffn_down_exps", analysis.sums[i].inner);
  }
  std::sort(tensors.begin(), tensors.end(), [](const ImatrixTensor& a, const ImatrixTensor& b) {
    return a.info.name < b.info.name;
  });
  return tensors;
}

std::vector<GgufEntry> entries_of(const Analysis& analysis, const std::string& dataset) {
  return {{"general.type", std::string("imatrix")},
          {"imatrix.datasets", std::vector<std::string>{dataset}},
          {"imatrix.chunk_count", static_cast<uint32_t>(analysis.windows)},
          {"imatrix.chunk_size", static_cast<uint32_t>(analysis.window)}};
}

}  // namespace

Result<std::string> imatrix_bytes(const Analysis& analysis, const std::string& dataset) {
  const std::vector<ImatrixTensor> tensors = tensors_of(analysis);
  std::vector<GgufTensorInfo> infos;
  for (const ImatrixTensor& tensor : tensors) infos.push_back(tensor.info);
  MOEC_ASSIGN(const GgufLayout layout, plan_gguf(entries_of(analysis, dataset), std::move(infos)));
  std::string bytes = layout.header;
  bytes.resize(static_cast<size_t>(layout.file_bytes));
  for (size_t i = 0; i < tensors.size(); ++i)
    std::memcpy(bytes.data() + layout.offsets[i], tensors[i].values.data(),
                static_cast<size_t>(layout.bytes[i]));
  return bytes;
}

}  // namespace moec
