#include "frontends/sources/hf/attention_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace moec {
namespace {

constexpr const char* kAttention = "attention_layers";
constexpr const char* kMixer = "mixer_layers";

// Merges the two lists of layer numbers and refuses missing or duplicate layers.
class ListedLayers {
 public:
  ListedLayers(ConfigReader& reader, size_t layers) : reader_(reader), attends_(layers) {}

  void take(const char* list, const std::vector<int64_t>& numbers, bool attends) {
    for (const int64_t number : numbers) {
      // These configs count layers from 1.
      if (number < 1 || std::cmp_greater(number, attends_.size()))
        refuse(list, fmt::format("\"{}\" contains {}, but layers are numbered from 1 to {}",
                                 reader_.key_of(list), number, attends_.size()));
      else if (std::optional<bool>& layer = attends_[static_cast<size_t>(number - 1)])
        refuse(list, fmt::format("\"{}\" and \"{}\" name layer {} twice",
                                 reader_.key_of(kAttention), reader_.key_of(kMixer), number));
      else
        layer = attends;
    }
  }

  std::vector<bool> each() {
    std::vector<bool> all;
    for (const std::optional<bool>& layer : attends_) {
      if (!layer)
        refuse(kMixer,
               fmt::format("neither \"{}\" nor \"{}\" names layer {}", reader_.key_of(kAttention),
                           reader_.key_of(kMixer), all.size() + 1));
      // A missing layer is an error already; the value only completes the list.
      all.push_back(layer.value_or(true));
    }
    return all;
  }

 private:
  // Reports only the first finding, because later ones usually follow from it.
  void refuse(const char* list, std::string cause) {
    if (!refused_)
      reader_.error("hf.config.layer_types", std::move(cause), reader_.at(list),
                    "list each layer once, counted from 1");
    refused_ = true;
  }

  ConfigReader& reader_;
  std::vector<std::optional<bool>> attends_;
  bool refused_ = false;
};

// Returns the flags that the lists determine; absent if the config has no lists.
std::optional<std::vector<bool>> listed(ConfigReader& reader, size_t layers) {
  const auto attends = reader.optional_integers(kAttention);
  const auto mixes = reader.optional_integers(kMixer);
  if (!attends && !mixes) return std::nullopt;
  if (!attends || !mixes) {
    const char* const given = attends ? kAttention : kMixer;
    const char* const other = attends ? kMixer : kAttention;
    reader.error(
        "hf.config.layer_types",
        fmt::format("\"{}\" is given without \"{}\"", reader.key_of(given), reader.key_of(other)),
        reader.at(given), "add the other list with the remaining layers");
    return std::nullopt;
  }
  ListedLayers all(reader, layers);
  all.take(kAttention, *attends, true);
  all.take(kMixer, *mixes, false);
  return all.each();
}

}  // namespace

std::vector<bool> attention_layers(ConfigReader& reader, size_t layers) {
  // The keys are read even if the config has lists. Otherwise they would be reported as unknown.
  const int64_t step = reader.optional_integer("attention_step").value_or(1);
  const int64_t first = reader.optional_integer("first_attention").value_or(step - 1);
  if (auto numbers = listed(reader, layers)) return *std::move(numbers);
  std::vector<bool> attends;
  for (int64_t i = 0; std::cmp_less(i, layers); ++i)
    // By default, the last layer of each `step` layers attends.
    attends.push_back(step > 0 && i >= first && (i - first) % step == 0);
  return attends;
}

void check_listed_mixers(ConfigReader& reader, const std::vector<bool>& attends,
                         const std::vector<bool>& now) {
  if (reader.at(kAttention) == nullptr) return;
  const auto differs = std::mismatch(now.begin(), now.end(), attends.begin());
  if (differs.first == now.end()) return;
  reader.error("hf.config.conflict",
               fmt::format("\"{}\" and \"{}\" specify different mixers for layer {}",
                           reader.key_of("layer_types"), reader.key_of(kAttention),
                           differs.first - now.begin() + 1),
               reader.at("layer_types"), "remove the wrong one");
}

}  // namespace moec
