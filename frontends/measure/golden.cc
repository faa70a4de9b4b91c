#include "frontends/measure/golden.h"

#include <fmt/format.h>

#include "backends/formats/safetensors/safetensors.h"
#include "ir/base/at.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr std::string_view kGoldenFormat = "moec-golden/1";
// Limit for one decoded tensor. The header is untrusted and can claim any dims.
constexpr uint64_t kMaxTensorBytes = uint64_t{1} << 32;

std::string_view kRemake = "create the golden again with scripts/make_golden.py";

tl::unexpected<Diagnostics> bad_golden(const std::string& path, const std::string& why) {
  return fail("golden.malformed", why, std::string(kRemake), {.file = path});
}

// Parsed golden.json.
struct Description {
  std::string config_digest, top_k;
  std::vector<GoldenStep> steps;
  std::optional<GreedyText> greedy;
};

Result<GreedyText> read_greedy(JsonFields fields) {
  GreedyText greedy;
  MOEC_TRY(fields.integers("prompt", greedy.prompt));
  MOEC_TRY(fields.integers("tokens", greedy.tokens));
  if (greedy.prompt.empty()) return fields.bad("prompt", "needs at least one token");
  if (greedy.tokens.empty()) return fields.bad("tokens", "needs at least one token");
  return greedy;
}

// Ignores informational fields (package versions, figures of the run).
Result<Description> read_fields(JsonFields fields) {
  std::string format;
  MOEC_TRY(fields.text("format", format));
  if (format != kGoldenFormat)
    return fields.bad("format", fmt::format("must be \"{}\"", kGoldenFormat));
  Description description;
  MOEC_TRY(fields.text("config_digest", description.config_digest));
  if (fields.has("top_k")) MOEC_TRY(fields.text("top_k", description.top_k));
  if (fields.has("greedy")) {
    MOEC_ASSIGN(JsonFields greedy, fields.object("greedy"));
    MOEC_ASSIGN(description.greedy, read_greedy(std::move(greedy)));
  }
  MOEC_TRY(fields.each("steps", [&](JsonFields& item) -> Status {
    GoldenStep& step = description.steps.emplace_back();
    MOEC_TRY(item.text("name", step.name));
    return item.whole("position", step.position);
  }));
  return description;
}

Result<Description> read_description(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "golden.unreadable"));
  const JsonReport report(text, path, JsonCodes::all_as("golden.malformed", std::string(kRemake)));
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  return read_fields(std::move(fields));
}

Result<WeightTable> tensor_table(const std::string& path) {
  MOEC_ASSIGN(const SafetensorsHeader header, read_safetensors(path));
  WeightTable table;
  table.files.push_back({path, header.file_bytes, header.identity});
  // Reads only the header. Tensors are read on demand.
  for (const SafetensorsEntry& entry : header.tensors) {
    const auto type = ir_type(entry);
    if (!type)
      return bad_golden(
          path, fmt::format("tensor {} has the unsupported type {}", entry.name, entry.dtype));
    table.tensors[entry.name] = {0, entry.begin, *type};
  }
  return table;
}

}  // namespace

std::string Golden::name(const std::string& step, int64_t layer, const std::string& what) {
  return fmt::format("{}.L{:02}.{}", step, layer, what);
}

Result<Golden> Golden::open(const std::string& folder) {
  const std::string path = folder + "/golden.json";
  MOEC_ASSIGN(Description description, read_description(path));
  Golden golden;
  golden.folder_ = folder;
  golden.config_digest_ = std::move(description.config_digest);
  golden.top_k_ = std::move(description.top_k);
  golden.steps_ = std::move(description.steps);
  golden.greedy_ = std::move(description.greedy);
  MOEC_ASSIGN(WeightTable table, tensor_table(folder + "/golden.safetensors"));
  MOEC_ASSIGN(WeightReader reader, WeightReader::open(std::move(table)));
  golden.reader_ = std::make_shared<WeightReader>(std::move(reader));
  for (GoldenStep& step : golden.steps_) {
    // Tensors are decoded to f32, which represents token ids below 2^24 exactly.
    MOEC_ASSIGN(Rows tokens, golden.rows(step.name + ".tokens"));
    step.tokens.assign(tokens.data.begin(), tokens.data.end());
    // Steps continue one sequence, so each begins at the number of tokens before it.
    if (step.tokens.empty() || step.position != golden.positions_)
      return bad_golden(
          path, fmt::format("step {} has {} tokens at position {}, but {} tokens precede it",
                            step.name, step.tokens.size(), step.position, golden.positions_));
    golden.positions_ += std::ssize(step.tokens);
  }
  if (golden.steps_.empty()) return bad_golden(path, "the golden has no steps");
  return golden;
}

bool Golden::has(const std::string& tensor) const {
  return reader_->table().find(tensor) != nullptr;
}

Result<Rows> Golden::rows(const std::string& tensor) const {
  const TensorRange* range = reader_->table().find(tensor);
  if (!range)
    return fail("golden.missing", fmt::format("the golden has no tensor '{}'", tensor),
                std::string(kRemake), {.tensor = tensor, .file = folder_});
  MOEC_ASSIGN(std::vector<float> data,
              reader_->read_f32(tensor_view(tensor, range->type), kMaxTensorBytes));
  const int64_t columns = range->type.dims.empty() ? 1 : range->type.dims.back();
  return Rows{columns, std::move(data)};
}

Result<GoldenCache> Golden::cache(const manifest::Cache& cache, bool keys) const {
  const int64_t dims = keys ? cache.head_dim : cache.value_dim;
  // The name does not determine the shape, so the first tensor with the shape of this cache is
  // used.
  for (const char* what : {"cache", "heads"}) {
    const std::string tensor = fmt::format("L{:02}.{}_{}", cache.layer, keys ? 'k' : 'v', what);
    const TensorRange* range = reader_->table().find(tensor);
    if (!range) continue;
    const Dims& sizes = range->type.dims;
    if (sizes.size() != 3 || sizes[0] != cache.kv_heads || sizes[2] != dims) continue;
    if (sizes[1] < positions_)
      return bad_golden(folder_, fmt::format("tensor {} has {} positions, but the steps have {}",
                                             tensor, sizes[1], positions_));
    MOEC_ASSIGN(Rows found, rows(tensor));
    return GoldenCache{sizes[1], dims, std::move(found.data)};
  }
  return fail("golden.missing",
              fmt::format("the golden has no {} with {} heads and {} dims for layer {}",
                          keys ? "keys" : "values", cache.kv_heads, dims, cache.layer),
              std::string(kRemake), {.file = folder_});
}

Result<Rows> Golden::routing_weights(const std::string& step, int64_t layer,
                                     int64_t experts) const {
  MOEC_ASSIGN(Rows chosen, rows(name(step, layer, "experts")));
  MOEC_ASSIGN(Rows weights, rows(name(step, layer, "weights")));
  MOEC_ASSIGN(const Rows logits, rows(name(step, layer, "router_logits")));
  const int64_t tokens = std::ssize(chosen.data) / chosen.columns;
  // The golden lists the chosen experts of a token; a graph returns a weight for every expert.
  Rows dense{experts, std::vector<float>(static_cast<size_t>(tokens * experts))};
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t i = 0; i < chosen.columns; ++i) {
      const auto expert = static_cast<int64_t>(at(chosen.row(t), i));
      if (expert >= experts && expert < logits.columns) continue;  // a null slot
      if (expert < 0 || expert >= experts)
        return bad_golden(folder_,
                          fmt::format("expert {} of step {} does not exist", expert, step));
      at(dense.data, t * experts + expert) = at(weights.row(t), i);
    }
  return dense;
}

}  // namespace moec
