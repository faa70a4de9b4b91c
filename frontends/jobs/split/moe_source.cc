#include "frontends/jobs/split/moe_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "backends/files/digest.h"
#include "backends/formats/gguf/block_name.h"
#include "frontends/sources/gguf/gguf_model.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/hf/config.h"
#include "ir/base/json.h"

namespace moec {

namespace {

// Names of llama.cpp, without the prefix of the layer and suffixes such as ".weight".
constexpr std::string_view kRouter = "ffn_gate_inp";
constexpr std::array<std::string_view, 4> kMatrices = {"ffn_gate_exps", "ffn_up_exps",
                                                       "ffn_down_exps", "ffn_gate_up_exps"};
constexpr std::array<std::string_view, 4> kOfMatrix = {"weight", "bias", "scale", "input_scale"};
constexpr std::string_view kChoiceBias = "exp_probs_b";

template <class Names>
bool has_name(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

enum class TensorPart : uint8_t { trunk, router, experts, unknown };

// `name` is the tensor name without the prefix "blk.N.".
TensorPart part_of(std::string_view name) {
  const size_t dot = std::min(name.find('.'), name.size());
  const std::string_view stem = name.substr(0, dot);
  const std::string_view kind = name.substr(std::min(dot + 1, name.size()));
  if (stem == kRouter)
    return kind == "weight" || kind == "bias" ? TensorPart::router : TensorPart::unknown;
  if (stem == kChoiceBias)
    return kind.empty() || kind == "bias" ? TensorPart::router : TensorPart::unknown;
  if (has_name(kMatrices, stem))
    return has_name(kOfMatrix, kind) ? TensorPart::experts : TensorPart::unknown;
  // A shared expert contains "exp", so it must be excluded before the last check.
  if (stem.ends_with("_shexp")) return TensorPart::trunk;
  // An unknown name with "exp" is an error: a tensor of experts in the trunk would have the wrong
  // size.
  return stem.find("exp") == std::string_view::npos ? TensorPart::trunk : TensorPart::unknown;
}

std::optional<size_t> expert_axis(const GgufTensor& tensor, int64_t experts) {
  size_t axis = 0;
  // Skips leading sizes of 1, but not if there is only one expert, whose size is 1, too.
  while (axis + 1 < tensor.dims.size() && tensor.dims[axis] == 1 && experts != 1) ++axis;
  const bool last = axis + 1 == tensor.dims.size();
  // A row of blocks can be cut only between blocks; other axes always lie on block boundaries.
  const bool whole = !last || block_format(tensor.type).elements == 1;
  return axis < tensor.dims.size() && tensor.dims[axis] == experts && whole ? std::optional(axis)
                                                                            : std::nullopt;
}

tl::unexpected<Diagnostics> error_at(std::string code, std::string cause, std::string next,
                                     const Gguf& gguf, const std::string& tensor) {
  return fail(std::move(code), std::move(cause), std::move(next),
              {.tensor = printable(tensor), .file = gguf.values.file()});
}

class CutTensorFinder {
 public:
  CutTensorFinder(const Gguf& gguf, int64_t experts) : gguf_(gguf), experts_(experts) {}

  Result<std::vector<CutTensor>> run() {
    for (size_t i = 0; i < gguf_.tensors.size(); ++i) MOEC_TRY(visit(i));
    if (with_experts_.empty()) return no_experts();
    for (const int64_t layer : with_experts_)
      if (!with_router_.contains(layer)) return unmatched(layer, "experts and no router");
    for (const int64_t layer : with_router_)
      if (!with_experts_.contains(layer)) return unmatched(layer, "a router and no experts");
    return std::move(found_);
  }

 private:
  Status visit(size_t index) {
    const GgufTensor& tensor = gguf_.tensors[index];
    const auto name = parse_block_name(tensor.name);
    // Tensors outside of layers belong to the trunk.
    const TensorPart part = name ? part_of(name->name) : TensorPart::trunk;
    if (part == TensorPart::trunk) return {};
    if (part == TensorPart::unknown)
      return error_at(
          "split.unknown_tensor",
          "the tensor's name refers to experts, but moec split does not know this tensor",
          "use a model of another architecture", gguf_, tensor.name);
    const auto axis = expert_axis(tensor, experts_);
    if (!axis)
      return error_at("split.tensor_dims",
                      fmt::format("{} of {} cannot be divided evenly among {} experts",
                                  to_string(tensor.dims), enum_name(tensor.type), experts_),
                      "download or convert the file again", gguf_, tensor.name);
    (part == TensorPart::router ? with_router_ : with_experts_).insert(name->layer);
    found_.push_back({index, name->layer, *axis});
    return {};
  }

  tl::unexpected<Diagnostics> no_experts() const {
    return fail("split.no_experts",
                "no tensor contains all experts of a layer (such as blk.N.ffn_down_exps.weight)",
                "convert the model again with a current version of llama.cpp",
                {.file = gguf_.values.file()});
  }

  tl::unexpected<Diagnostics> unmatched(int64_t layer, std::string_view has) const {
    return fail("split.router", fmt::format("layer {} has {}", layer, has),
                "download the file again", {.file = gguf_.values.file()});
  }

  const Gguf& gguf_;
  int64_t experts_;
  std::vector<CutTensor> found_;
  std::set<int64_t> with_experts_, with_router_;
};

}  // namespace

Result<std::vector<CutTensor>> find_cut_tensors(const Gguf& gguf, int64_t experts) {
  return CutTensorFinder(gguf, experts).run();
}

namespace {

// Returns `unknown` if moec has no family for the architecture or cannot read its keys.
KeptRouting routing_of(const Gguf& gguf) {
  // The routing is informative: an unknown architecture is split with a warning.
  const auto model = identify(gguf);
  const auto text = gguf_config_text(gguf.values.file());
  if (!model || !text) return KeptRouting::unknown;
  const auto config = read_config(*text, gguf.values.file(), &model->family);
  return config ? kept_routing(config->model.moe.routing, config->model.moe.choice_bias)
                : KeptRouting::unknown;
}

// Limits memory, because sets of experts are stored as lists. Known routers have far fewer experts.
constexpr int64_t kMaxExpertsOfSource = 65'536;

Status check_counts(const ExpertGrid& grid, const std::string& file) {
  const bool chosen =
      grid.top_k >= 1 && grid.top_k <= grid.experts && grid.experts <= kMaxExpertsOfSource;
  // The node's keys are derived from these numbers, so inconsistent ones must stop here.
  const bool grouped =
      grid.groups == 1 || (grid.groups < grid.experts && grid.experts % grid.groups == 0 &&
                           grid.groups_kept >= 1 && grid.groups_kept <= grid.groups);
  if (chosen && grouped) return {};
  return fail(
      "split.counts",
      fmt::format(
          "the keys of the router are inconsistent: {} experts, top-k {}, {} groups, {} groups "
          "kept",
          grid.experts, grid.top_k, grid.groups, grid.groups_kept),
      "convert the model again", {.file = file});
}

Status read_counts(MoeSource& source) {
  const GgufValues& values = source.gguf.values;
  const auto number = [&](std::string_view name, int64_t absent) -> Result<int64_t> {
    MOEC_ASSIGN(const auto found, values.find<uint32_t>(source.key(name)));
    return found ? int64_t{*found} : absent;
  };
  MOEC_ASSIGN(const uint32_t experts, values.get<uint32_t>(source.key("expert_count")));
  MOEC_ASSIGN(const uint32_t used, values.get<uint32_t>(source.key("expert_used_count")));
  MOEC_ASSIGN(const int64_t groups, number("expert_group_count", 1));
  // A count of 0 groups means that the router has none.
  source.grid = {{}, experts, used, std::max<int64_t>(1, groups), 1};
  if (groups > 1) {
    MOEC_ASSIGN(source.grid.groups_kept, number("expert_group_used_count", groups));
  }
  return check_counts(source.grid, values.file());
}

// Divides the MoE layers into layers of the decoder and layers after the decoder.
Status sort_layers(MoeSource& source) {
  const GgufValues& values = source.gguf.values;
  MOEC_ASSIGN(const uint32_t all, values.get<uint32_t>(source.key("block_count")));
  MOEC_ASSIGN(const auto more, values.find<uint32_t>(source.key("nextn_predict_layers")));
  // max() guards against a damaged file with more predicting layers than layers.
  const int64_t decoder = std::max<int64_t>(0, int64_t{all} - more.value_or(0));
  // A set orders the layers, which ExpertGrid requires.
  std::set<int64_t> layers;
  for (const CutTensor& tensor : source.experts) layers.insert(tensor.layer);
  for (const int64_t layer : layers)
    (layer < decoder ? source.grid.layers : source.behind).push_back(layer);
  if (!source.grid.layers.empty()) return {};
  return fail("split.no_experts",
              fmt::format("none of the {} layers of the decoder has experts", decoder),
              "pass a model with experts", {.file = values.file()});
}

std::string digest_of(const Gguf& gguf) {
  std::string text;
  for (const auto& [key, value] : gguf.values.keys())
    // Keys of a split differ between equal models, so they do not count.
    if (!is_split_key(key))
      text += fmt::format("{}\n{} {}\n{}\n", key, to_string(value), value.count,
                          gguf.values.bytes(value));
  // A set, so that the digest does not depend on the order of tensors or their files.
  std::set<std::string> tensors;
  for (const GgufTensor& tensor : gguf.tensors)
    tensors.insert(
        fmt::format("{}\n{} {}\n", tensor.name, enum_name(tensor.type), to_string(tensor.dims)));
  for (const std::string& tensor : tensors) text += tensor;
  return digest_text(text);
}

}  // namespace

bool is_split_key(std::string_view key) {
  return key.starts_with("split.") || key.starts_with("moec.split.");
}

Result<MoeSource> read_moe_source(const std::string& path) {
  MoeSource source;
  MOEC_ASSIGN(source.gguf, read_gguf(path));
  MOEC_ASSIGN(const std::string_view arch,
              source.gguf.values.get<std::string_view>("general.architecture"));
  source.arch = arch;
  MOEC_TRY(read_counts(source));
  MOEC_ASSIGN(source.experts, find_cut_tensors(source.gguf, source.grid.experts));
  MOEC_TRY(sort_layers(source));
  source.routing = routing_of(source.gguf);
  source.digest = digest_of(source.gguf);
  return source;
}

}  // namespace moec
