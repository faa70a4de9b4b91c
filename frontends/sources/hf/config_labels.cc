#include "frontends/sources/hf/config_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

// The published model that labels tokens has 33.
constexpr size_t kMostLabels = 4096;

// The id that a key spells, where it is one of the first `count`.
std::optional<size_t> parse_id(std::string_view key, size_t count) {
  const auto id = parse_number<size_t>(key);
  return id && *id < count ? id : std::nullopt;
}

bool has_twice(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end());
  return std::adjacent_find(labels.begin(), labels.end()) != labels.end();
}

}  // namespace

std::vector<std::string> read_labels(ConfigReader& reader) {
  const JsonValue::Object& members = reader.members("labels");
  const JsonValue* at = reader.at("labels");
  const std::string key = reader.key_of("labels");
  if (members.size() > kMostLabels) {
    reader.error("hf.config.labels",
                 fmt::format("\"{}\" has {} entries; at most {} labels are taken", key,
                             members.size(), kMostLabels),
                 at);
    return {};
  }
  std::vector<std::string> labels(members.size());
  for (const JsonMember& member : members) {
    const std::optional<size_t> id = parse_id(member.key, labels.size());
    const std::string* label = member.value.string();
    if (id && label != nullptr && !label->empty() && labels[*id].empty()) {
      labels[*id] = *label;
      continue;
    }
    reader.error(
        "hf.config.labels",
        fmt::format("\"{}\" has {} entries, and among them \"{}\": {}; the ids are 0, 1, "
                    "2, …, and each has a name",
                    key, labels.size(), printable(member.key, 40), to_string(member.value, 60)),
        at);
    return {};
  }
  if (has_twice(labels))
    reader.error("hf.config.labels", fmt::format("\"{}\" names two labels alike", key), at);
  return labels;
}

}  // namespace moec
