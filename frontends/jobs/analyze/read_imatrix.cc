#include "frontends/jobs/analyze/read_imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/formats/gguf/block_name.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/sources/gguf/gguf.h"
#include "frontends/sources/gguf/open_gguf.h"

namespace moec {
namespace {

constexpr const char* kNextStep =
    "give a file that llama-imatrix (July 2025 or later) wrote for this model";
constexpr double kMostCounts = 9007199254740992;  // 2^53
constexpr const char* kExpertMatrices[] = {"ffn_gate_up_exps", "ffn_gate_exps", "ffn_up_exps",
                                           "ffn_down_exps"};

class ImatrixReader {
 public:
  ImatrixReader(const std::string& path, const ImatrixModel& model, const Gguf& file,
                const WeightReader& values)
      : path_(path), model_(model), file_(file), values_(values) {}

  Result<LayerProfile> layer(int64_t number) const {
    LayerProfile profile;
    profile.layer = number;
    for (const char* matrix : kExpertMatrices) {
      const std::string name = block_name(number, std::string(matrix) + ".weight.counts");
      const GgufTensor* tensor = find(name);
      if (!tensor) continue;
      MOEC_ASSIGN(std::vector<int64_t> counts, counts_of(*tensor));
      if (!profile.selections.empty() && profile.selections != counts)
        return error(name, "differs from the counts of the layer's other matrices");
      profile.selections = std::move(counts);
    }
    if (profile.selections.empty())
      return error(block_name(number, "ffn_down_exps.weight.counts"), "is missing");
    profile.tokens = tokens_of(profile.selections);
    if (profile.tokens == 0)
      return error(block_name(number, "ffn_down_exps.weight.counts"), "has no counts above 0");
    if (*std::max_element(profile.selections.begin(), profile.selections.end()) > profile.tokens)
      return error(block_name(number, "ffn_down_exps.weight.counts"),
                   fmt::format("has an expert with more counts than tokens that choose {}",
                               model_.grid.top_k));
    return profile;
  }

 private:
  const GgufTensor* find(const std::string& name) const {
    const auto found = std::find_if(file_.tensors.begin(), file_.tensors.end(),
                                    [&](const GgufTensor& one) { return one.name == name; });
    return found == file_.tensors.end() ? nullptr : &*found;
  }

  Result<std::vector<int64_t>> counts_of(const GgufTensor& tensor) const {
    if (tensor.type != BlockType::f32 ||
        tensor.bytes != static_cast<uint64_t>(model_.grid.experts) * sizeof(float))
      return error(tensor.name, fmt::format("must be f32 numbers, one for each of {} experts",
                                            model_.grid.experts));
    const Type& type = values_.table().find(tensor.name)->type;
    MOEC_ASSIGN(const std::vector<float> values,
                values_.read_f32(tensor_view(tensor.name, type), tensor.bytes));
    std::vector<int64_t> counts;
    for (const float value : values) {
      if (!(value >= 0) || value > kMostCounts || value != std::floor(value))
        return error(tensor.name, fmt::format("has the count {}", value));
      counts.push_back(static_cast<int64_t>(value));
    }
    return counts;
  }

  int64_t tokens_of(const std::vector<int64_t>& counts) const {
    const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    return (all + model_.grid.top_k - 1) / model_.grid.top_k;
  }

  tl::unexpected<Diagnostics> error(const std::string& tensor, const std::string& what) const {
    return fail("analyze.imatrix", fmt::format("the tensor {}", what), kNextStep,
                {.tensor = tensor, .file = path_});
  }

  const std::string& path_;
  const ImatrixModel& model_;
  const Gguf& file_;
  const WeightReader& values_;
};

// Its tensors of numbers; an imatrix has no others.
WeightTable table_of(const Gguf& file) {
  WeightTable table;
  table.files = file.files;
  for (const GgufTensor& tensor : file.tensors)
    if (tensor.type == BlockType::f32)
      table.tensors[tensor.name] = {tensor.file, tensor.offset, {DType::f32, tensor.dims}};
  return table;
}

Diagnostic note_of_counts(const std::string& path) {
  return {Severity::note,
          "analyze.counts_only",
          "an imatrix has counts of experts alone: routing weights, norms, saliency, pairs, "
          "categories and held-out curves are left out",
          "analyze the checkpoint for these",
          {.file = path}};
}

// A complete run has chunk_count chunks of chunk_size tokens.
void read_chunks(const Gguf& file, Analysis& analysis) {
  const auto count = file.values.get<uint32_t>("imatrix.chunk_count");
  const auto size = file.values.get<uint32_t>("imatrix.chunk_size");
  if (!count || !size) return;
  analysis.windows = *count;
  analysis.window = *size;
}

}  // namespace

Result<Analysis> read_imatrix(const std::string& path, const ImatrixModel& model) {
  if (!names_gguf(path))
    return fail("analyze.imatrix",
                "the file is no GGUF file; an imatrix of the older form has no counts by expert",
                kNextStep, {.file = path});
  MOEC_ASSIGN(const Gguf file, read_gguf(path));
  MOEC_ASSIGN(const WeightReader values, WeightReader::open(table_of(file)));
  ExpertProfile profile{model.family,     {}, "imatrix", {}, model.grid.experts,
                        model.grid.top_k, {}, {}};
  for (const int64_t layer : model.grid.layers) {
    MOEC_ASSIGN(profile.layers.emplace_back(),
                ImatrixReader(path, model, file, values).layer(layer));
  }
  Analysis analysis = analysis_of(std::move(profile), {note_of_counts(path)});
  read_chunks(file, analysis);
  return analysis;
}

}  // namespace moec
