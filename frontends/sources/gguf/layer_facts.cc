#include "frontends/sources/gguf/layer_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace moec {
namespace {

// Finds the kinds of a file's layers.
class LayerKindFinder {
 public:
  LayerKindFinder(const GgufModel& model, int64_t count)
      : model_(model), layers_(model.architecture.layers), count_(count) {}

  Result<GgufLayerFacts> run() {
    for (const GgufLayerKind& kind : layers_.kinds)
      for (const auto& [key, value] : kind.keys)
        if (!values_.contains(key)) {
          MOEC_ASSIGN(values_[key], values_of(key));
        }
    for (int64_t layer = 0; layer < count_; ++layer) MOEC_TRY(take(layer));
    return std::move(facts_);
  }

 private:
  using Values = std::vector<double>;

  tl::unexpected<Diagnostics> refuse(std::string code, std::string cause) const {
    return fail(std::move(code), std::move(cause), "use the Hugging Face checkpoint of the model",
                {.file = model_.file.values.file()});
  }

  // The value that a key with a step has in each n-th layer, or in the other layers.
  double stepped_value(const std::string& key, bool is_nth) const {
    return layers_.kinds[is_nth ? 0 : 1].keys.find(key)->second.number;
  }

  Values by_step(const std::string& key, const GgufLayerStep& step, int64_t number) const {
    Values all;
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t nth = step.from_first ? 0 : number - 1;
      all.push_back(stepped_value(key, number > 0 && i % number == nth));
    }
    return all;
  }

  Result<Values> values_of(const std::string& key) const {
    const auto step = layers_.steps.find(key);
    const bool has_step = step != layers_.steps.end();
    const auto found = model_.file.values.keys().find(model_.key(key));
    if (found == model_.file.values.keys().end()) {
      if (has_step && !step->second.number.empty()) {
        const std::string number_key = model_.key(step->second.number);
        MOEC_ASSIGN(const auto number, model_.file.values.find<uint32_t>(number_key));
        if (number) return by_step(key, step->second, *number);
      }
      if (has_step && step->second.otherwise)
        return by_step(key, step->second, *step->second.otherwise);
      return refuse("gguf.missing_key",
                    fmt::format("the key \"{}\", which determines the kinds of the layers, is "
                                "missing",
                                model_.key(key)));
    }
    if (found->second.is_array) return listed_values(key, found->second.type);
    MOEC_ASSIGN(const uint32_t number, model_.file.values.get<uint32_t>(found->first));
    if (has_step) return by_step(key, step->second, number);
    return Values(static_cast<size_t>(count_), number);
  }

  Result<Values> listed_values(const std::string& key, GgufType type) const {
    Values all;
    if (type == GgufType::boolean) {
      MOEC_ASSIGN(const auto flags, model_.file.values.get_array<bool>(model_.key(key)));
      all.assign(flags.begin(), flags.end());
    } else {
      MOEC_ASSIGN(const auto numbers, model_.integers(key));
      all.assign(numbers.begin(), numbers.end());
    }
    // Lists may continue with the multi-token prediction layers.
    if (std::cmp_greater_equal(all.size(), count_)) return all;
    return refuse("gguf.layers", fmt::format("{} has {} values, but the model has {} layers",
                                             model_.key(key), all.size(), count_));
  }

  double value_in(const std::string& key, int64_t layer) const {
    return values_.find(key)->second[static_cast<size_t>(layer)];
  }

  bool is_of(const GgufLayerKind& kind, int64_t layer) const {
    return std::all_of(kind.keys.begin(), kind.keys.end(), [&](const auto& entry) {
      const double found = value_in(entry.first, layer);
      return entry.second.concept_name.empty() ? found == entry.second.number : found != 0;
    });
  }

  Status take(int64_t layer) {
    const auto kind = std::find_if(layers_.kinds.begin(), layers_.kinds.end(),
                                   [&](const GgufLayerKind& each) { return is_of(each, layer); });
    if (kind == layers_.kinds.end())
      return refuse("gguf.layers",
                    fmt::format("layer {} is of no kind that the family {} has: {} is {}", layer,
                                model_.family.model_type, model_.key(values_.begin()->first),
                                value_in(values_.begin()->first, layer)));
    facts_.kinds.push_back(kind->name);
    for (const auto& [key, value] : kind->keys) {
      if (value.concept_name.empty()) continue;
      const int64_t found = std::llround(value_in(key, layer));
      const auto [known, is_new] = facts_.concepts.emplace(value.concept_name, found);
      if (!is_new && known->second != found)
        return refuse("gguf.conflict",
                      fmt::format("{} is {} in one layer and {} in another, which the family {} "
                                  "cannot express",
                                  model_.key(key), known->second, found, model_.family.model_type));
    }
    return {};
  }

  const GgufModel& model_;
  const GgufLayers& layers_;
  int64_t count_;
  std::map<std::string, Values> values_;
  GgufLayerFacts facts_;
};

}  // namespace

Result<GgufLayerFacts> gguf_layer_facts(const GgufModel& model, int64_t count) {
  return LayerKindFinder(model, count).run();
}

}  // namespace moec
