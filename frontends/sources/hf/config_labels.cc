#include "frontends/sources/hf/config_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

// Generous upper bound; the published token classifier has 33 labels.
constexpr size_t kMaxLabels = 4096;

// Parses a key as an id below `count`; absent if the key is not such an id.
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
  // Limits the memory for an untrusted config.
  if (members.size() > kMaxLabels) {
    reader.error("hf.config.labels",
                 fmt::format("\"{}\" has {} entries; at most {} labels are supported", key,
                             members.size(), kMaxLabels),
                 at);
    return {};
  }
  // n distinct ids below n are exactly 0 … n − 1, so a gap needs no separate check.
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
        fmt::format("\"{}\" has {} entries, including \"{}\": {}; the ids must be 0, 1, 2, …, "
                    "each with a name",
                    key, labels.size(), printable(member.key, 40), to_string(member.value, 60)),
        at);
    return {};
  }
  if (has_twice(labels))
    reader.error("hf.config.labels", fmt::format("\"{}\" has two equal labels", key), at);
  return labels;
}

}  // namespace moec
