#include "frontends/jobs/split/moe_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/files/digest.h"
#include "frontends/sources/gguf/gguf_model.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/hf/config.h"

namespace moec {
namespace {

// Unknown where the architecture or its keys are such that moec has no family for them.
KeptRouting routing_of(const Gguf& gguf) {
  const auto model = identify(gguf);
  const auto text = gguf_config_text(gguf.values.file());
  if (!model || !text) return KeptRouting::unknown;
  const auto config = read_config(*text, gguf.values.file(), &model->family);
  return config ? kept_routing(config->model.moe.routing) : KeptRouting::unknown;
}

// Sets of experts are lists: a router has a row for each, and none is near this size.
constexpr int64_t kMostExpertsOfSource = 65'536;

Status check_counts(const ExpertGrid& grid, const std::string& file) {
  const bool chosen =
      grid.top_k >= 1 && grid.top_k <= grid.experts && grid.experts <= kMostExpertsOfSource;
  const bool grouped =
      grid.groups == 1 || (grid.groups < grid.experts && grid.experts % grid.groups == 0 &&
                           grid.groups_kept >= 1 && grid.groups_kept <= grid.groups);
  if (chosen && grouped) return {};
  return fail(
      "split.counts",
      fmt::format("{} experts, of which a token chooses {}, in {} groups, of which it keeps "
                  "{}: such a router cannot be",
                  grid.experts, grid.top_k, grid.groups, grid.groups_kept),
      "The file's keys are wrong: convert the model again.", {.file = file});
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
  source.grid = {{}, experts, used, std::max<int64_t>(1, groups), 1};
  if (groups > 1) {
    MOEC_ASSIGN(source.grid.groups_kept, number("expert_group_used_count", groups));
  }
  return check_counts(source.grid, values.file());
}

// Puts the layers that have experts where they belong.
Status sort_layers(MoeSource& source) {
  const GgufValues& values = source.gguf.values;
  MOEC_ASSIGN(const uint32_t all, values.get<uint32_t>(source.key("block_count")));
  MOEC_ASSIGN(const auto more, values.find<uint32_t>(source.key("nextn_predict_layers")));
  const int64_t decoder = std::max<int64_t>(0, int64_t{all} - more.value_or(0));
  std::set<int64_t> layers;
  for (const CutTensor& tensor : source.experts) layers.insert(tensor.layer);
  for (const int64_t layer : layers)
    (layer < decoder ? source.grid.layers : source.behind).push_back(layer);
  if (!source.grid.layers.empty()) return {};
  return fail("split.no_experts",
              fmt::format("none of the {} layers of the decoder has experts", decoder),
              "moec split is for models with experts.", {.file = values.file()});
}

std::string digest_of(const Gguf& gguf) {
  std::string text;
  for (const auto& [key, value] : gguf.values.keys())
    if (!is_split_key(key))
      text += fmt::format("{}\n{} {}\n{}\n", key, to_string(value), value.count,
                          gguf.values.bytes(value));
  std::set<std::string> tensors;
  for (const GgufTensor& tensor : gguf.tensors)
    tensors.insert(
        fmt::format("{}\n{} {}\n", tensor.name, enum_name(tensor.type), to_string(tensor.dims)));
  for (const std::string& tensor : tensors) text += tensor;
  return digest_text(text);
}

}  // namespace

// The weight of an expert depends on the logits of experts that were not chosen.
static bool shares_mass(Score score) {
  switch (score) {
    case Score::softmax:
    case Score::sparsemixer:
      return true;
    case Score::sigmoid:
    case Score::softmax_selected:
    case Score::sigmoid_selected:
      break;
  }
  return false;
}

KeptRouting kept_routing(const Router& router) {
  return shares_mass(router.score) && router.renorm == Renorm::none ? KeptRouting::inflated
                                                                    : KeptRouting::masked;
}

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
