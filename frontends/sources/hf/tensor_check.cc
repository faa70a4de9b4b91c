#include "frontends/sources/hf/tensor_check.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>

#include "frontends/sources/config/absent_keys.h"
#include "frontends/sources/hf/role_choices.h"
#include "ir/base/json.h"
#include "ir/base/nearest.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/ignored_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

// Further findings usually have the same cause.
constexpr size_t kFindingsInFull = 8;
constexpr const char* kConvert = "convert the checkpoint to one of these types";
constexpr size_t kNearestNames = 64;  // maximum missing tensors with a search for similar names
constexpr size_t kNeighbours = 200;  // existing names on either side to compare with a missing name

bool exists(const FolderWeights& weights, const std::string& name) {
  return weights.table.find(name) != nullptr || weights.not_representable.count(name) > 0;
}

bool is_stored(const FolderWeights& weights, const StoredWeights& stored, const std::string& name) {
  for (const std::string& as : stored_names(stored, name))
    if (exists(weights, as)) return true;
  return false;
}

// Returns true if any layer has a tensor of this template. All layers are searched, because a
// single one may be dense.
bool any_layer_has(const FolderWeights& weights, const ModelConfig& model,
                   const std::string& text) {
  TensorNames one;
  one.by_role["role"] = text;
  // The index of an expert is 0 here: every layer that has experts has the first one.
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (is_stored(weights, model.stored, one("role", static_cast<int64_t>(i), 0))) return true;
  return false;
}

// Returns the first alternative name of a role that the checkpoint contains; null if there is none.
const std::string* present(const Family& family, const FolderWeights& weights,
                           const ModelConfig& model, std::string_view role) {
  auto templates = family.tensors.find(role);
  if (templates == family.tensors.end()) return nullptr;
  for (const std::string& text : templates->second)
    if (any_layer_has(weights, model, text)) return &text;
  return nullptr;
}

// Returns true if fused experts are stored transposed. Qwen3-VL needs this check: its releases and
// the checkpoints that transformers 5 saves have different layouts under the same name.
bool holds_transposed(const FolderWeights& weights, const ModelConfig& model) {
  const int64_t f = model.moe.expert_ff, d = model.expert_width();
  const bool by_down = 2 * f == d;  // gate and up are then square, which hides their layout
  const Dims plain = by_down ? Dims{model.moe.experts, d, f} : Dims{model.moe.experts, 2 * f, d};
  for (int64_t i = 0; i < std::ssize(model.layers); ++i)
    if (const TensorRange* found =
            weights.table.find(model.names(by_down ? "experts_down" : "experts_gate_up", i)))
      return found->type.dims != plain;
  return true;
}

void choose_layout(const FolderWeights& weights, ModelConfig& model) {
  TensorNames& names = model.names;
  if (!names.has("experts_gate_up") || !names.has("experts_gate_up_in_out")) return;
  // Both layouts have roles until the files decide; the roles of the other layout are removed.
  const std::string suffix = holds_transposed(weights, model) ? "" : "_in_out";
  for (const char* role : {"experts_gate_up", "experts_down"}) names.by_role.erase(role + suffix);
}

// Uses the roles `choice.other` if the files have their tensors and no tensors of `choice.usual`.
void choose_other(const Family& family, const FolderWeights& weights, const RoleChoice& choice,
                  ModelConfig& model) {
  if (present(family, weights, model, choice.other.front()) == nullptr ||
      present(family, weights, model, choice.usual.front()) != nullptr)
    return;
  for (const std::string_view role : choice.usual) model.names.by_role.erase(std::string(role));
  for (const std::string_view role : choice.other) {
    const std::string* text = present(family, weights, model, role);
    model.names.by_role[std::string(role)] =
        text != nullptr ? *text : family.tensors.find(role)->second.front();
  }
}

using Names = std::set<std::string, std::less<>>;

// Returns the existing names that sort next to `name`, except those in `taken`.
std::vector<std::string_view> neighbours(const FolderWeights& weights, const std::string& name,
                                         const Names& taken) {
  const auto& tensors = weights.table.tensors;
  auto first = tensors.lower_bound(name), last = first;
  for (size_t i = 0; i < kNeighbours && first != tensors.begin(); ++i) --first;
  for (size_t i = 0; i < kNeighbours && last != tensors.end(); ++i) ++last;
  std::vector<std::string_view> names;
  for (auto it = first; it != last; ++it)
    if (taken.count(it->first) == 0) names.push_back(it->first);
  return names;
}

// Returns the most similar existing name. Prefers names that the model does not use, because such a
// tensor is more likely to be the missing one.
std::string nearest_name(const FolderWeights& weights, const std::string& name,
                         const Names& needed) {
  std::string_view unused = nearest(name, neighbours(weights, name, needed));
  return std::string(unused.empty() ? nearest(name, neighbours(weights, name, {})) : unused);
}

class TensorChecker {
 public:
  // `limit`: maximum number of findings that are reported in full.
  TensorChecker(const HfConfig& config, const FolderWeights& weights, size_t limit)
      : config_(config), model_(config.model), weights_(weights), limit_(limit) {
    // The names of all needed tensors must be known before the first message suggests a name.
    for (const NeededTensor& tensor : needed_tensors(model_))
      for (const StoredTensor& stored : stored_tensors(weights.table, model_.stored, tensor))
        needed_.insert(stored.tensor.name);
  }

  // Returns true if every stored part of the tensor is present with the expected shape and type.
  bool check(const NeededTensor& tensor) {
    const size_t before = count_;
    for (const StoredTensor& stored : stored_tensors(weights_.table, model_.stored, tensor))
      check(stored);
    return count_ == before;
  }

  bool needs(const std::string& name) const { return needed_.count(name) > 0; }

  Diagnostics take_findings() {
    if (count_ > limit_)
      findings_.push_back({Severity::error,
                           "hf.tensor.more",
                           fmt::format("{} more tensors are missing or have a wrong shape or type",
                                       count_ - limit_),
                           {},
                           {}});
    return std::move(findings_);
  }

 private:
  void check(const StoredTensor& stored) {
    const NeededTensor& tensor = stored.tensor;
    const TensorRange* found = weights_.table.find(tensor.name);
    if (found == nullptr) return absent(stored);
    Place place{.tensor = tensor.name,
                .file = weights_.table.files[found->file].path,
                .offset = found->offset};
    if (found->type.dims != tensor.dims)
      add("hf.tensor.shape",
          fmt::format("the {} of this model must be {}, found {}", tensor.role,
                      to_string(tensor.dims), to_string(found->type.dims)),
          absent_keys_of_role({*config_.family, config_.concepts}, tensor.role) +
              "use the config.json that belongs to the weights",
          place);
    const DType dtype = found->type.dtype;
    // A stored part, such as codes or scales, has one exact type. A plain weight can have any float
    // type.
    if (stored.dtype ? dtype == *stored.dtype : is_float(dtype)) return;
    add("hf.tensor.dtype",
        fmt::format("the tensor is stored as {}; {} must be {}", dtype_name(dtype),
                    stored.dtype ? "the " + tensor.role : "weights", types_of(stored)),
        kConvert, place);
  }

  static std::string types_of(const StoredTensor& stored) {
    return stored.dtype ? std::string(dtype_name(*stored.dtype)) : "F32, F16 or BF16";
  }

  void absent(const StoredTensor& stored) {
    const NeededTensor& tensor = stored.tensor;
    auto odd = weights_.not_representable.find(tensor.name);
    if (odd != weights_.not_representable.end())
      return add("hf.tensor.dtype",
                 fmt::format("{}; the {} must be {} in {}", odd->second, tensor.role,
                             to_string(tensor.dims), types_of(stored)),
                 kConvert, {.tensor = tensor.name});
    if (++count_ > limit_) return;
    // The search compares a name with up to 2 * kNeighbours names, so it is limited.
    const std::string near =
        count_ <= kNearestNames ? nearest_name(weights_, tensor.name, needed_) : std::string();
    findings_.push_back(
        {Severity::error,
         "hf.tensor.missing",
         fmt::format("the tensor \"{}\" ({}) is missing{}", tensor.name, tensor.role,
                     near.empty() ? "" : fmt::format("; the nearest name is \"{}\"", near)),
         absent_keys_of_role({*config_.family, config_.concepts}, tensor.role) +
             (tensor.role == "lm_head" ? "set tie_word_embeddings if the head shares the embedding"
                                       : "use a complete checkpoint of this family"),
         {.tensor = tensor.name}});
  }

  void add(std::string code, std::string cause, std::string next, Place place) {
    if (++count_ > limit_) return;
    findings_.push_back(
        {Severity::error, std::move(code), std::move(cause), std::move(next), std::move(place)});
  }

  const HfConfig& config_;
  const ModelConfig& model_;
  const FolderWeights& weights_;
  size_t limit_;
  Names needed_;
  Diagnostics findings_;
  size_t count_ = 0;
};

std::set<std::string> all_names(const FolderWeights& weights) {
  std::set<std::string> names;
  for (const auto& [name, range] : weights.table.tensors) names.insert(name);
  for (const auto& [name, why] : weights.not_representable) names.insert(name);
  return names;
}

Diagnostic unused(const std::string& name) {
  return {Severity::error,
          "hf.tensor.unused",
          "the tensor has no role",
          "give it a role, or list it under \"ignored_tensors\" with the reason",
          {.tensor = name}};
}

}  // namespace

void resolve_names(const Family& family, const FolderWeights& weights, ModelConfig& model) {
  for (auto& [role, name] : model.names.by_role)
    if (const std::string* text = present(family, weights, model, role)) name = *text;
  // Some classes have a choice bias of zeros that their releases do not store.
  const auto optional = family.concepts.find("choice_bias_if_stored");
  if (optional != family.concepts.end() && optional->second.fallback == JsonValue{true} &&
      present(family, weights, model, "router_choice_bias") == nullptr)
    model.moe.choice_bias = false;
  choose_layout(weights, model);
  for (const RoleChoice& choice : role_choices()) {
    const bool is_transposed =
        choice.other.front() == "experts_gate_up" && model.names.has("experts_gate_up_in_out");
    if (!is_transposed) choose_other(family, weights, choice, model);
  }
}

Diagnostics check_tensors(const HfConfig& config, const FolderWeights& weights) {
  TensorChecker checker(config, weights, kFindingsInFull);
  for (const NeededTensor& tensor : needed_tensors(config.model)) checker.check(tensor);
  return checker.take_findings();
}

TensorAccount account_for_tensors(const HfConfig& config, const FolderWeights& weights) {
  const ModelConfig& model = config.model;
  TensorAccount account;
  TensorChecker checker(config, weights, SIZE_MAX);
  std::map<std::string, size_t> place;  // role → index
  for (const NeededTensor& tensor : needed_tensors(model)) {
    const auto [at, is_new] = place.try_emplace(tensor.role, account.roles.size());
    if (is_new)
      account.roles.push_back({tensor.role, model.names.by_role.at(tensor.role), tensor.dims});
    RoleAccount& role = account.roles[at->second];
    role.needed += 1;
    role.found += checker.check(tensor) ? 1 : 0;
  }
  account.findings = checker.take_findings();
  for (const std::string& name : all_names(weights)) {
    if (checker.needs(name)) continue;
    if (const std::string* pattern = ignoring_pattern(model, name))
      account.ignored[*pattern] += 1;
    else
      account.findings.push_back(unused(name));
  }
  return account;
}

}  // namespace moec
