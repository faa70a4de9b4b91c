#include "frontends/jobs/analyze/analyze_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "backends/formats/gguf/block_name.h"
#include "backends/formats/gguf/gguf_layout.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/file_set.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/analyze/analysis_csv.h"
#include "frontends/jobs/analyze/analysis_json.h"
#include "frontends/jobs/analyze/plots.h"
#include "frontends/measure/analysis.h"
#include "frontends/measure/measure_checkpoint.h"
#include "frontends/measure/measure_export.h"
#include "frontends/sources/gguf/gguf.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"
#include "ir/base/at.h"
#include "ir/base/report_json.h"
#include "ir/experts/expert_sets.h"
#include "ir/model/model_experts.h"

namespace moec {

namespace {

// The importance matrix, in the format of llama.cpp's llama-quantize.
constexpr const char* kImatrixFile = "imatrix.gguf";

struct ImatrixTensor {
  GgufTensorInfo info;
  std::vector<float> values;
};

std::vector<float> counts_of(const LayerProfile& layer) {
  return {layer.selections.begin(), layer.selections.end()};
}

// Concatenates the rows of all experts; rows of experts without tokens are zero.
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
  // Experts without tokens have empty rows, so the width is that of any expert with tokens.
  for (const std::vector<float>& row : rows) columns = std::max(columns, row.size());
  const std::string name = block_name(layer.layer, matrix + ".weight");
  const auto experts = std::ssize(rows);
  // llama-imatrix stores counts and sums as separate tensors with these suffixes. Counts are f32 in
  // its format, too.
  tensors.push_back({{name + ".counts", BlockType::f32, {experts, 1}}, counts_of(layer)});
  tensors.push_back({{name + ".in_sum2", BlockType::f32, {experts, static_cast<int64_t>(columns)}},
                     joined(rows, columns)});
}

// Tensors sorted by name, like those of llama-imatrix.
std::vector<ImatrixTensor> tensors_of(const Analysis& analysis) {
  std::vector<ImatrixTensor> tensors;
  for (size_t i = 0; i < analysis.sums.size(); ++i) {
    const LayerProfile& layer = analysis.profile.layers[i];
    // Gate and up multiply the same input, so they share the sums of squares.
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

// Returns the bytes of the imatrix file. The file has, for the three expert matrices of each layer,
// the token count per expert and the sums of squared inputs per column. It has no other matrices.
// `dataset` names the text. `analysis` must have sums. Errors: those of plan_gguf().
Result<std::string> imatrix_bytes(const Analysis& analysis, const std::string& dataset) {
  const std::vector<ImatrixTensor> tensors = tensors_of(analysis);
  std::vector<GgufTensorInfo> infos;
  for (const ImatrixTensor& tensor : tensors) infos.push_back(tensor.info);
  MOEC_ASSIGN(const GgufLayout layout, plan_gguf(entries_of(analysis, dataset), std::move(infos)));
  std::string bytes = layout.header;
  // Padding between tensors stays zero: resize() fills with zeros, which keeps the bytes
  // reproducible.
  bytes.resize(static_cast<size_t>(layout.file_bytes));
  for (size_t i = 0; i < tensors.size(); ++i)
    std::memcpy(bytes.data() + layout.offsets[i], tensors[i].values.data(),
                static_cast<size_t>(layout.bytes[i]));
  return bytes;
}

// The model to which an imatrix must belong.
struct ImatrixModel {
  std::string family;
  ExpertGrid grid;
};

constexpr const char* kNextStep =
    "pass a file that llama-imatrix of July 2025 or later wrote for this model";
// The limit keeps the conversion from float to int64_t defined.
constexpr double kMaxCounts = 9007199254740992;  // 2^53
// The first name is that of models that store gate and up as one tensor. A model has either that
// tensor or the two separate ones.
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
      // The matrices of an expert see the same tokens, so their counts must be equal.
      if (!profile.selections.empty() && profile.selections != counts)
        return error(name, "differs from the counts of the layer's other matrices");
      profile.selections = std::move(counts);
    }
    if (profile.selections.empty())
      return error(block_name(number, "ffn_down_exps.weight.counts"), "is missing");
    profile.tokens = tokens_of(profile.selections);
    if (profile.tokens == 0)
      return error(block_name(number, "ffn_down_exps.weight.counts"), "has no counts above 0");
    const int64_t most = *std::max_element(profile.selections.begin(), profile.selections.end());
    if (most > profile.tokens)
      return error(block_name(number, "*"),
                   fmt::format("counts {} selections of one expert, but only {} tokens at top-k {}",
                               most, profile.tokens, model_.grid.top_k));
    return profile;
  }

 private:
  const GgufTensor* find(const std::string& name) const {
    const auto found = std::find_if(file_.tensors.begin(), file_.tensors.end(),
                                    [&](const GgufTensor& one) { return one.name == name; });
    return found == file_.tensors.end() ? nullptr : &*found;
  }

  Result<std::vector<int64_t>> counts_of(const GgufTensor& tensor) const {
    // The type check must precede find() below, because table_of() contains only f32 tensors.
    if (tensor.type != BlockType::f32 ||
        tensor.bytes != static_cast<uint64_t>(model_.grid.experts) * sizeof(float))
      return error(tensor.name,
                   fmt::format("must have {} f32 numbers, one per expert", model_.grid.experts));
    const Type& type = values_.table().find(tensor.name)->type;
    MOEC_ASSIGN(const std::vector<float> values,
                values_.read_f32(tensor_view(tensor.name, type), tensor.bytes));
    std::vector<int64_t> counts;
    for (const float value : values) {
      // `!(value >= 0)` also rejects NaN.
      if (!(value >= 0) || value > kMaxCounts || value != std::floor(value))
        return error(tensor.name, fmt::format("has the invalid count {}", value));
      counts.push_back(static_cast<int64_t>(value));
    }
    return counts;
  }

  // Assumes `top_k` selections per token, because the file has no number of tokens.
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

// Weight table of the file's f32 tensors.
WeightTable table_of(const Gguf& file) {
  WeightTable table;
  table.files = file.files;
  for (const GgufTensor& tensor : file.tensors)
    // Other types are left out of the table, and counts_of() rejects them.
    if (tensor.type == BlockType::f32)
      table.tensors[tensor.name] = {tensor.file, tensor.offset, {DType::f32, tensor.dims}};
  return table;
}

Diagnostic note_of_counts(const std::string& path) {
  return {
      Severity::note,
      "analyze.counts_only",
      "an imatrix has only counts of experts: the results lack routing weights, norms, saliency, "
      "pairs, categories and held-out curves",
      "analyze the checkpoint to measure these",
      {.file = path}};
}

// Reads the number and size of windows: a complete run has chunk_count chunks of chunk_size tokens.
void read_chunks(const Gguf& file, Analysis& analysis) {
  // The keys are optional: without them, the number and size of windows stay unknown.
  const auto count = file.values.get<uint32_t>("imatrix.chunk_count");
  const auto size = file.values.get<uint32_t>("imatrix.chunk_size");
  if (!count || !size) return;
  analysis.windows = *count;
  analysis.window = *size;
}

// Reads the selections per layer and expert from an importance matrix of llama-imatrix in the GGUF
// format of July 2025 and later. The file has no routing weights, norms, pairs or token order.
// Errors: gguf.* of the reader; analyze.imatrix (not a GGUF file, a layer without counts or with
// another number of experts, counts that are not whole numbers or differ among a layer's matrices).
Result<Analysis> read_imatrix(const std::string& path, const ImatrixModel& model) {
  if (!names_gguf(path))
    return fail("analyze.imatrix",
                "the file is not a GGUF file; older imatrix files have no counts per expert",
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

Result<Analysis> analyze_imatrix(const AnalyzeOptions& options) {
  ImatrixModel model;
  // Neither branch reads weights; the experts and layers are known from the manifest or
  // config.json.
  if (options.exported) {
    MOEC_ASSIGN(const Manifest manifest, read_manifest(options.source));
    model = {manifest.model.family, expert_grid(manifest)};
  } else {
    MOEC_ASSIGN(const Checkpoint checkpoint, open_config_only(options.source, options.family));
    model = {checkpoint.config.family, expert_grid(checkpoint.config)};
  }
  MOEC_TRY(check_has_experts(std::ssize(model.grid.layers), options.source));
  return read_imatrix(options.imatrix, model);
}

void add_rankings(const Analysis& analysis, std::vector<NamedText>& files) {
  for (const LayerProfile& layer : analysis.profile.layers) {
    // Routing weights are measured for all layers or for none.
    if (layer.mass.empty()) return;
    files.push_back({fmt::format("ranking_L{:02}.csv", layer.layer), ranking_csv(layer)});
  }
  files.push_back({"ranking.csv", summed_ranking_csv(analysis.profile)});
}

// Returns the dataset name in the form that llama-imatrix records.
std::string dataset_of(const AnalysisSource& text) {
  if (!text.prompts.empty()) return text.prompts;
  if (!text.prompt.empty()) return "prompt";
  // Requires a text: one of the two lists has a file.
  return (text.texts.empty() ? text.tokens : text.texts).front();
}

// Writes analysis.json last, so that its presence shows that the other files are complete.
Status write_results(const Analysis& analysis, const AnalyzeOptions& options) {
  std::vector<NamedText> files = {{kExpertProfileFile, expert_profile_text(analysis.profile)},
                                  {"experts.csv", experts_csv(analysis)},
                                  {"capture.csv", capture_csv(analysis)},
                                  {"categories.csv", categories_csv(analysis)},
                                  {"heatmap.svg", heat_map_svg(analysis.profile)},
                                  {"capture.svg", capture_svg(analysis)}};
  add_rankings(analysis, files);
  if (options.pairs_file) files.push_back({"coactivation.csv", coactivation_csv(analysis.profile)});
  if (options.imatrix_file) {
    MOEC_ASSIGN(std::string bytes, imatrix_bytes(analysis, dataset_of(options.text)));
    files.push_back({kImatrixFile, std::move(bytes)});
  }
  // Omits "out", because the file lies in that folder.
  files.push_back({"analysis.json", json_text(analysis_json(analysis, {})) + "\n"});
  return write_set(options.folder, files);
}

}  // namespace

Result<Analysis> analyze_text(const AnalyzeOptions& options) {
  MOEC_ASSIGN(Measurement measured, options.exported
                                        ? measure_export(options)
                                        : measure_checkpoint(options, options.imatrix_file));
  return analysis_of(std::move(measured));
}

Result<Analysis> analyze_model(const AnalyzeOptions& options) {
  // An export does not expose the inputs of its matrices, and an imatrix as source has only counts.
  if (options.imatrix_file && (options.exported || !options.imatrix.empty()))
    return fail("analyze.imatrix_source",
                "an imatrix needs the inputs of matrices, which only a checkpoint provides",
                "analyze the checkpoint, or leave out --imatrix", {.file = options.source});
  MOEC_ASSIGN(Analysis analysis,
              options.imatrix.empty() ? analyze_text(options) : analyze_imatrix(options));
  MOEC_TRY(write_results(analysis, options));
  return analysis;
}

}  // namespace moec
