#include "models/published/published.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "embedded/embedded_published.h"
#include "ir/base/invariant.h"
#include "ir/base/json.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

constexpr std::string_view kIndex = "index.json";
constexpr size_t kLeastPrefix = 3;  // a shorter prefix is more likely a typo

// ASCII only, like repository names.
std::string lower_case(std::string_view name) {
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string_view text_of(const std::string& file) {
  const auto found = std::find_if(embedded_published.begin(), embedded_published.end(),
                                  [&](const EmbeddedFile& entry) { return entry.name == file; });
  MOEC_CHECK(found != embedded_published.end(), "models/published/{} is missing", file);
  return found->text;
}

std::string text_field(const JsonMember& model, std::string_view field) {
  const JsonValue* value = model.value.find(field);
  MOEC_CHECK(value != nullptr && value->string() != nullptr, "models/published/index.json: {}: {}",
             model.key, field);
  return *value->string();
}

std::vector<PublishedModel> load_embedded() {
  const std::string file(kIndex);
  const Result<JsonValue> index = parse_json(text_of(file), {.file = file});
  MOEC_CHECK(index.has_value(), "{}", render(index.error()));
  const JsonValue* list = index->find("models");
  MOEC_CHECK(list != nullptr && list->object() != nullptr, "models/published/index.json: models");
  std::vector<PublishedModel> models;
  for (const JsonMember& model : *list->object())
    models.push_back({model.key, text_field(model, "checkpoint"), text_field(model, "parameters"),
                      text_of(model.key + ".json"),
                      model.value.find("from") ? text_field(model, "from") : ""});
  return models;
}

}  // namespace

bool PublishedModel::agrees_with(int64_t count) const {
  // `parameters` is an exact number, or billions ("30.5B") rounded to the given decimals.
  if (parameters.empty()) return true;
  if (parameters.back() != 'B') return std::to_string(count) == parameters;
  const std::string_view digits = std::string_view(parameters).substr(0, parameters.size() - 1);
  // Without a point, `point` is the index of the last digit, so `decimals` is 0.
  const size_t point = std::min(digits.find('.'), digits.size() - 1);
  const auto decimals = static_cast<int>(digits.size() - 1 - point);
  return fmt::format("{:.{}f}", static_cast<double>(count) / 1e9, decimals) == digits;
}

std::span<const PublishedModel> published_models() {
  static const std::vector<PublishedModel> models = load_embedded();
  return models;
}

Result<const PublishedModel*> find_published(std::string_view name) {
  // Names in the index are lower case, whereas repository names can have capital letters.
  const std::string wanted = lower_case(name);
  std::vector<std::string_view> names, longer;
  const PublishedModel* found = nullptr;
  for (const PublishedModel& model : published_models()) {
    const std::string checkpoint = lower_case(model.checkpoint);
    if (wanted == model.name || wanted == checkpoint ||
        wanted == checkpoint.substr(checkpoint.find('/') + 1))
      return &model;
    // The names are needed for the error message only.
    names.push_back(model.name);
    if (wanted.size() < kLeastPrefix || !model.name.starts_with(wanted)) continue;
    longer.push_back(model.name);
    found = &model;
  }
  // A prefix must match a single name. An exact name was returned above.
  if (longer.size() == 1) return found;
  if (!longer.empty())
    return fail(
        "published.several",
        fmt::format("the names of several published models begin with \"{}\"", printable(name)),
        fmt::format("pass one of {}", fmt::join(longer, ", ")));
  return fail("published.unknown",
              fmt::format("no file, folder or published model is named \"{}\"{}", printable(name),
                          did_you_mean(name, names)),
              fmt::format("pass a path or one of {}", fmt::join(names, ", ")));
}

}  // namespace moec
