#include "frontends/jobs/split/cut_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "backends/formats/gguf/block_name.h"
#include "ir/base/json.h"

namespace moec {
namespace {

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

// `name` stands without "blk.N.".
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
  if (stem.ends_with("_shexp")) return TensorPart::trunk;
  return stem.find("exp") == std::string_view::npos ? TensorPart::trunk : TensorPart::unknown;
}

std::optional<size_t> expert_axis(const GgufTensor& tensor, int64_t experts) {
  size_t axis = 0;
  while (axis + 1 < tensor.dims.size() && tensor.dims[axis] == 1 && experts != 1) ++axis;
  const bool last = axis + 1 == tensor.dims.size();
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
    const TensorPart part = name ? part_of(name->name) : TensorPart::trunk;
    if (part == TensorPart::trunk) return {};
    if (part == TensorPart::unknown)
      return error_at("split.unknown_tensor",
                      "the tensor's name has to do with experts, but moec does not know how to "
                      "cut it",
                      "The architecture has parts that moec split does not know.", gguf_,
                      tensor.name);
    const auto axis = expert_axis(tensor, experts_);
    if (!axis)
      return error_at("split.tensor_dims",
                      fmt::format("{} of {} has no whole part for each of {} experts",
                                  to_string(tensor.dims), enum_name(tensor.type), experts_),
                      "The file is damaged, or its expert_count is wrong: fetch it again.", gguf_,
                      tensor.name);
    (part == TensorPart::router ? with_router_ : with_experts_).insert(name->layer);
    found_.push_back({index, name->layer, *axis});
    return {};
  }

  tl::unexpected<Diagnostics> no_experts() const {
    return fail("split.no_experts",
                "no tensor holds the experts of a layer (blk.N.ffn_down_exps.weight and others)",
                "Files of old converters hold each expert in a tensor of its own: convert the "
                "model again.",
                {.file = gguf_.values.file()});
  }

  tl::unexpected<Diagnostics> unmatched(int64_t layer, std::string_view has) const {
    return fail("split.router", fmt::format("layer {} has {}", layer, has),
                "The file is damaged: fetch it again.", {.file = gguf_.values.file()});
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

}  // namespace moec
