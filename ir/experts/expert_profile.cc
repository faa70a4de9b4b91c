#include "ir/experts/expert_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ir/base/at.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"
#include "ir/experts/expert_id.h"

namespace moec {
namespace {

constexpr std::string_view kFormat = "moec.expert_profile";
constexpr int64_t kVersion = 1;
// Enough for the pairs of 60 layers of 512 experts.
constexpr JsonLimits kLimits{.bytes = size_t{128} << 20, .values = size_t{1} << 23};

// Lists that are optional in the file: each is present only if it was measured.
struct NamedList {
  const char* name;
  std::vector<double> LayerProfile::*values;
};
constexpr NamedList kMeasures[] = {{"mass", &LayerProfile::mass},
                                   {"output_norm", &LayerProfile::output_norm},
                                   {"saliency", &LayerProfile::saliency},
                                   {"largest_activation", &LayerProfile::largest_activation}};

std::string category_text(const ProfileCategory& category) {
  return fmt::format(R"({{"name": {}, "documents": {}, "tokens": {}}})", json_string(category.name),
                     category.documents, category.tokens);
}

std::string layer_text(const LayerProfile& layer, const std::vector<ProfileCategory>& categories) {
  std::string out = fmt::format("    {{\"layer\": {}, \"tokens\": {},\n     \"selections\": [{}]",
                                layer.layer, layer.tokens, fmt::join(layer.selections, ", "));
  for (const auto& [name, values] : kMeasures)
    if (!(layer.*values).empty())
      out += fmt::format(",\n     \"{}\": [{}]", name, fmt::join(layer.*values, ", "));
  if (!layer.together.empty())
    out += fmt::format(",\n     \"together\": [{}]", fmt::join(layer.together, ", "));
  std::vector<std::string> shares;
  for (size_t c = 0; c < layer.by_category.size(); ++c)
    shares.push_back(fmt::format(R"({{"name": {}, "selections": [{}]}})",
                                 json_string(categories[c].name),
                                 fmt::join(layer.by_category[c], ", ")));
  if (!shares.empty())
    out += fmt::format(",\n     \"categories\": [\n      {}]", fmt::join(shares, ",\n      "));
  return out + "}";
}

class ProfileReader {
 public:
  Result<ExpertProfile> read(JsonFields& fields) {
    // Reads the sizes and categories first, because read_layer() checks layers against them.
    MOEC_TRY(read_head(fields));
    MOEC_TRY(fields.each("categories", [&](JsonFields& item) { return read_category(item); }));
    MOEC_TRY(fields.each("layers", [&](JsonFields& item) { return read_layer(item); }));
    MOEC_TRY(fields.finish());
    if (profile_.layers.empty()) return fields.bad("layers", "must have at least one layer");
    return std::move(profile_);
  }

 private:
  Status read_head(JsonFields& fields) {
    MOEC_TRY(fields.form(kFormat, kVersion));
    MOEC_TRY(fields.text("model", profile_.model));
    MOEC_TRY(fields.text("checkpoint", profile_.checkpoint));
    MOEC_TRY(fields.text("source", profile_.source));
    MOEC_TRY(fields.text("text", profile_.text));
    MOEC_TRY(fields.positive("experts", profile_.experts));
    MOEC_TRY(fields.positive("top_k", profile_.top_k));
    if (profile_.experts > kMaxExperts)
      return fields.bad("experts", fmt::format("must be at most {}", kMaxExperts));
    if (profile_.top_k > profile_.experts)
      return fields.bad("top_k", "must not be above the number of experts");
    return {};
  }

  Status read_category(JsonFields& fields) {
    ProfileCategory category;
    MOEC_TRY(fields.text("name", category.name));
    MOEC_TRY(fields.whole("documents", category.documents));
    MOEC_TRY(fields.whole("tokens", category.tokens));
    MOEC_TRY(fields.finish());
    profile_.categories.push_back(std::move(category));
    return {};
  }

  Status read_layer(JsonFields& fields) {
    LayerProfile layer;
    MOEC_TRY(fields.whole("layer", layer.layer));
    MOEC_TRY(fields.whole("tokens", layer.tokens));
    // Ascending layers allow check_profile() to compare them with the model's layers in order.
    if (!profile_.layers.empty() && profile_.layers.back().layer >= layer.layer)
      return fields.bad("layer", "must be above the previous layer's");
    MOEC_TRY(read_counts(fields, layer.tokens, layer.selections));
    // The product cannot overflow: read_counts() bounds the tokens, and top_k is at most
    // kMaxExperts.
    if (const int64_t all = sum_of(layer.selections); all > layer.tokens * profile_.top_k)
      return fields.bad("selections", fmt::format("are {} for {} tokens that choose {} experts",
                                                  all, layer.tokens, profile_.top_k));
    for (const auto& [name, values] : kMeasures)
      if (fields.has(name)) MOEC_TRY(read_measure(fields, name, layer.*values));
    if (fields.has("together")) MOEC_TRY(read_pairs(fields, layer));
    if (fields.has("categories"))
      MOEC_TRY(
          fields.each("categories", [&](JsonFields& item) { return read_share(item, layer); }));
    // A layer has all categories or none: check_sums() requires that they add up to `selections`.
    if (!layer.by_category.empty() && layer.by_category.size() != profile_.categories.size())
      return fields.bad("categories", "must equal the profile's categories");
    MOEC_TRY(check_sums(fields, layer));
    MOEC_TRY(fields.finish());
    profile_.layers.push_back(std::move(layer));
    return {};
  }

  // Checks that only chosen experts have mass, and that categories add up to the selections.
  static Status check_sums(const JsonFields& fields, const LayerProfile& layer) {
    for (size_t e = 0; e < layer.selections.size(); ++e) {
      if (!layer.mass.empty() && layer.selections[e] == 0 && layer.mass[e] > 0)
        return fields.bad("mass", fmt::format("is above 0 for expert {}, which no token chose", e));
      int64_t sum = 0;
      for (const auto& selections : layer.by_category) sum += selections[e];
      if (!layer.by_category.empty() && sum != layer.selections[e])
        return fields.bad("categories", fmt::format("have {} selections of expert {}, not {}", sum,
                                                    e, layer.selections[e]));
    }
    const bool weighed =
        std::any_of(layer.mass.begin(), layer.mass.end(), [](double mass) { return mass > 0; });
    if (layer.mass.empty() || weighed || sum_of(layer.selections) == 0) return {};
    return fields.bad("mass", "is 0 for all experts, although tokens chose some");
  }

  static int64_t sum_of(const std::vector<int64_t>& counts) {
    int64_t sum = 0;
    for (const int64_t count : counts) sum += count;
    return sum;
  }

  // Counts must not exceed the number of tokens, so that their sums fit into 64 bits.
  Status read_counts(JsonFields& fields, int64_t most, std::vector<int64_t>& counts) const {
    MOEC_TRY(fields.integers("selections", counts));
    if (std::ssize(counts) != profile_.experts)
      return fields.bad("selections",
                        fmt::format("must have {} numbers, one per expert", profile_.experts));
    if (most > INT64_MAX / kMaxExperts) return fields.bad("tokens", "is too large");
    if (std::any_of(counts.begin(), counts.end(), [&](int64_t c) { return c < 0 || c > most; }))
      return fields.bad("selections",
                        fmt::format("must be from 0 to {}, the number of tokens", most));
    return {};
  }

  Status read_measure(JsonFields& fields, std::string_view name, std::vector<double>& out) const {
    MOEC_TRY(fields.numbers(name, out));
    if (std::ssize(out) != profile_.experts)
      return fields.bad(name,
                        fmt::format("must have {} numbers, one per expert", profile_.experts));
    // isfinite() is a second check: the JSON parser already refuses numbers such as 1e999.
    if (std::any_of(out.begin(), out.end(), [](double v) { return !std::isfinite(v) || v < 0; }))
      return fields.bad(name, "must be finite and at least 0");
    return {};
  }

  Status read_pairs(JsonFields& fields, LayerProfile& layer) const {
    MOEC_TRY(fields.integers("together", layer.together));
    if (std::ssize(layer.together) != count_pairs(profile_.experts))
      return fields.bad("together", fmt::format("must have {} numbers, one per pair of experts",
                                                count_pairs(profile_.experts)));
    auto pair = layer.together.begin();
    for (size_t i = 0; i < layer.selections.size(); ++i)
      for (size_t j = i + 1; j < layer.selections.size(); ++j, ++pair)
        // Two experts cannot be chosen together more often than either of them.
        if (*pair < 0 || *pair > std::min(layer.selections[i], layer.selections[j]))
          return fields.bad("together",
                            fmt::format("is {} for experts {} and {}, which {} and {} "
                                        "tokens chose",
                                        *pair, i, j, layer.selections[i], layer.selections[j]));
    return {};
  }

  Status read_share(JsonFields& fields, LayerProfile& layer) const {
    std::string name;
    MOEC_TRY(fields.text("name", name));
    const size_t index = layer.by_category.size();
    // Categories must have the profile's order, so by_category needs no names.
    if (index >= profile_.categories.size() || profile_.categories[index].name != name)
      return fields.bad("name", "must be the name of the profile's category at this position");
    std::vector<int64_t> counts;
    MOEC_TRY(read_counts(fields, layer.tokens, counts));
    MOEC_TRY(fields.finish());
    layer.by_category.push_back(std::move(counts));
    return {};
  }

  ExpertProfile profile_;
};

}  // namespace

int64_t count_pairs(int64_t experts) { return experts * (experts - 1) / 2; }

int64_t pair_at(int64_t i, int64_t j, int64_t experts) {
  if (i > j) std::swap(i, j);
  // Pairs are numbered by rows of the triangle i < j. The rows before i have i · (2n − i − 1) / 2
  // pairs.
  return i * (2 * experts - i - 1) / 2 + (j - i - 1);
}

double mean_weight(const LayerProfile& layer, int64_t expert) {
  const int64_t count = at(layer.selections, expert);
  return count == 0 ? 0 : at(layer.mass, expert) / static_cast<double>(count);
}

const LayerProfile* find_layer(const ExpertProfile& profile, int64_t layer) {
  for (const LayerProfile& one : profile.layers)
    if (one.layer == layer) return &one;
  return nullptr;
}

std::string expert_profile_text(const ExpertProfile& profile) {
  std::vector<std::string> categories, layers;
  for (const ProfileCategory& category : profile.categories)
    categories.push_back(category_text(category));
  for (const LayerProfile& layer : profile.layers)
    layers.push_back(layer_text(layer, profile.categories));
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"model\": {},\n  \"checkpoint\": {},\n"
      "  \"source\": {},\n  \"text\": {},\n  \"experts\": {},\n  \"top_k\": {},\n"
      "  \"categories\": [{}],\n  \"layers\": [\n{}\n  ]\n}}\n",
      kFormat, kVersion, json_string(profile.model), json_string(profile.checkpoint),
      json_string(profile.source), json_string(profile.text), profile.experts, profile.top_k,
      fmt::join(categories, ", "), fmt::join(layers, ",\n"));
}

Result<ExpertProfile> parse_expert_profile(std::string_view text, const std::string& file) {
  const JsonReport report(
      text, file, JsonCodes::by_prefix("profile", "pass a profile.json that moec analyze wrote"));
  MOEC_ASSIGN(const JsonValue value, report.parse(kLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return ProfileReader().read(fields);
}

Result<ExpertProfile> read_expert_profile(const std::string& path) {
  std::error_code ignored;
  // A folder is treated as the output of `moec analyze`, which contains a profile.
  const std::string file = std::filesystem::is_directory(path, ignored)
                               ? (std::filesystem::path(path) / kExpertProfileFile).string()
                               : path;
  MOEC_ASSIGN(const std::string text, read_user_text(file, "profile.file"));
  return parse_expert_profile(text, file);
}

Status check_profile(const ExpertProfile& profile, const ExpertGrid& grid,
                     const std::string& file) {
  std::vector<int64_t> layers;
  for (const LayerProfile& layer : profile.layers) layers.push_back(layer.layer);
  if (layers == grid.layers && profile.experts == grid.experts && profile.top_k == grid.top_k)
    return {};
  return fail(
      "profile.model",
      fmt::format(
          "the profile has {} layers of {} experts with top-k {}, the model has {} layers of {} "
          "experts with top-k {}",
          layers.size(), profile.experts, profile.top_k, grid.layers.size(), grid.experts,
          grid.top_k),
      "pass the profile that moec analyze wrote for this model", {.file = file});
}

}  // namespace moec
